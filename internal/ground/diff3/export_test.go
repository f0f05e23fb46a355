package diff3

// Turn holds a value while a merge of this process works.
var Turn = turn
