package main

// must gives what there is no reason to fail for; a panic is an answer that is never right.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
