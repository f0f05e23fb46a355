package hub

// EditDistance counts the bytes to insert, delete or replace between a and b,
// for suggestions of a name that was perhaps meant. What is beyond the first 64
// bytes of a is not looked at.
func EditDistance(a, b string) int {
	a = a[:min(len(a), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
