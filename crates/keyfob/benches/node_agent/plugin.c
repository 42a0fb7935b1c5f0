// A plugin that costs as little as possible: plugin RUNS DELAY LENGTH
//
// Adds a byte to the file RUNS, waits for DELAY milliseconds, as if it asked a service, and answers with the image as the user
// and the pod's token, or "node" without one, as the password, filled up to LENGTH bytes. So a wrong answer can be told.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The value of a field of the request, whose strings have no escapes; or else the default.
static const char *value(char *request, const char *field, const char *missing) {
    char *start = strstr(request, field);
    if (!start) return missing;
    start += strlen(field);
    char *end = strchr(start, '"');
    if (end) *end = 0;
    return start;
}

int main(int argc, char **argv) {
    static char request[1 << 16], copy[1 << 16];
    size_t size = 0;
    ssize_t count;
    if (argc != 4) return 2;
    while ((count = read(0, request + size, sizeof request - 1 - size)) > 0) size += count;
    memcpy(copy, request, sizeof copy);
    int runs = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (runs < 0 || write(runs, "x", 1) != 1) return 1;
    long delay = atol(argv[2]);
    struct timespec wait = {delay / 1000, delay % 1000 * 1000000};
    nanosleep(&wait, 0);
    const char *image = value(request, "\"image\":\"", "none");
    const char *password = value(copy, "\"serviceAccountToken\":\"", "node");
    printf("{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\","
           "\"cacheKeyType\":\"%s\",\"cacheDuration\":\"12h\",\"auth\":{\"registry.example\":{\"username\":\"%s\",\"password\":\"%s.",
           strstr(image, "/one-login/") ? "Registry" : "Image", image, password);
    for (long left = atol(argv[3]) - (long)strlen(password) - 1; left > 0; left--) putchar('x');
    puts("\"}}}");
    return 0;
}
