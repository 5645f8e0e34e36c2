package inspect

import "testing"

// Where all files have the same length it is theirs, whatever is missing between them.
func TestTheLengthThatFilesWereMadeWith(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		files []File
		want  int64
	}{
		"the middle one is missing": {[]File{{Start: 0, Size: mib}, {Start: 2 * mib, Size: mib}}, mib},
		"a row":                     {[]File{{Start: 0, Size: mib}, {Start: mib, Size: mib}}, mib},
		"a short one":               {[]File{{Start: 0, Size: mib}, {Start: mib, Size: 500}, {Start: 2 * mib, Size: mib}}, mib},
		"empty ones":                {[]File{{Start: 0, Size: mib}, {Start: mib}, {Start: 2 * mib}}, mib},
		"all cut alike":             {[]File{{Start: 0, Size: 3000}, {Start: 4000, Size: 3000}}, 4000},
		"one":                       {[]File{{Start: 0, Size: mib}}, mib},
		"none":                      {nil, 0},
	} {
		if got := fileBytes(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
