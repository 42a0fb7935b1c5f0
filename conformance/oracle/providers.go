package main

type providersQuestion struct {
	// Providers has the patterns of each.
	Providers  [][]string `json:"providers"`
	Repository string     `json:"repository"`
}

// providers says which providers are asked about a repository.
func providers(q providersQuestion) any {
	asked := make([]bool, len(q.Providers))
	for n, patterns := range q.Providers {
		asked[n] = newProvider(configFor("provider", patterns...)).isImageAllowed(q.Repository)
	}
	return struct {
		Asked []bool `json:"asked"`
	}{asked}
}
