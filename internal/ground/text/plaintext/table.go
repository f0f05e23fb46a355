package plaintext

import (
	"slices"
	"unicode"
)

// A Row is a range of characters that plain text does not have.
type Row struct {
	First, Last rune
	Name        string

	// to is written in place of the character; it is "" for one that is removed.
	to string
	// keep reports whether a character between two others stays; nil for never.
	keep func(before, after rune) bool
}

const replacement = string(unicode.ReplacementChar)

// table has every control character but the line end and the tab, every character that
// Unicode calls a format character or default ignorable, and the separators of lines.
// Characters that end a line elsewhere become a space, and never a line end: a renderer
// has quoted its lines before, so that a new line would stand outside of the quotes.
//
// Three kinds of format characters are needed for reading and stay in their place.
// Arabic letters that enclose a number (U+0600 and others) can be seen. A joiner stays
// between two letters of a script whose forms it decides, such as Persian or Hindi, and
// between two pictographs, which it makes one: a word would be misspelled without it. At
// most one stays there, so that a row of joiners cannot carry a hidden text, and none
// stays in Latin text, where it would only tell two equal words apart. A selector of the
// presentation stays behind a pictograph, at most one. All other selectors choose
// between forms of one letter, and 256 of them have been used to write hidden bytes:
// they go. So do tag characters, although the flags of England, Scotland and Wales are
// made of them: those become a black flag. A model reads tag characters as if they were
// ASCII.
var table = []Row{
	{0x00, 0x08, "control", "", nil},
	{0x0b, 0x0c, "line tabulation, form feed", " ", nil},
	{0x0d, 0x1f, "carriage return, escape and other controls", "", nil},
	{0x7f, 0x84, "delete, C1 control", "", nil},
	{0x85, 0x85, "next line", " ", nil},
	{0x86, 0x9f, "C1 control", "", nil},
	{0xad, 0xad, "soft hyphen", "", nil},
	{0x34f, 0x34f, "combining grapheme joiner", "", nil},
	{0x61c, 0x61c, "Arabic letter mark, which turns the direction", "", nil},
	{0x115f, 0x1160, "Hangul fillers", "", nil},
	{0x17b4, 0x17b5, "inherent vowels of Khmer, which nothing shows", "", nil},
	{0x180b, 0x180f, "Mongolian selectors and vowel separator", "", nil},
	{0x200b, 0x200b, "zero width space", "", nil},
	{0x200c, 0x200d, "joiners", "", joined},
	{0x200e, 0x200f, "marks of direction", "", nil},
	{0x2028, 0x2029, "line and paragraph separators", " ", nil},
	{0x202a, 0x202e, "embeddings and overrides of direction", "", nil},
	{0x2060, 0x206f, "word joiner, invisible operators, isolates of direction", "", nil},
	{0x3164, 0x3164, "Hangul filler", "", nil},
	{0xfdd0, 0xfdef, "not characters", replacement, nil},
	{0xfe00, 0xfe0d, "variation selectors", "", nil},
	{0xfe0e, 0xfe0f, "selectors of the presentation of a pictograph", "", presented},
	{0xfeff, 0xfeff, "byte order mark", "", nil},
	{0xffa0, 0xffa0, "Hangul filler", "", nil},
	{0xfff0, 0xfffb, "interlinear annotations, and ignorable without a meaning", "", nil},
	{0xfffe, 0xffff, "not characters; so are the last two of every plane", replacement, nil},
	{0x13430, 0x1343f, "format controls of hieroglyphs", "", nil},
	{0x1bca0, 0x1bca3, "format controls of shorthand", "", nil},
	{0x1d173, 0x1d17a, "format controls of music", "", nil},
	{0xe0000, 0xe007f, "tag characters", "", nil},
	{0xe0080, 0xe00ff, "ignorable without a meaning", "", nil},
	{0xe0100, 0xe01ef, "variation selectors supplement", "", nil},
	{0xe01f0, 0xe0fff, "ignorable without a meaning", "", nil},
}

// Table returns the characters that plain text does not have, for tests of surfaces.
func Table() []Row { return slices.Clone(table) }

// rowOf returns the row of a character, nil if plain text may have it.
func rowOf(r rune) *Row {
	switch {
	case r >= ' ' && r < 0x7f:
		return nil
	case r&0xfffe == 0xfffe:
		r &= 0xffff
	}
	i, found := slices.BinarySearchFunc(table, r, func(row Row, r rune) int {
		switch {
		case row.Last < r:
			return -1
		case row.First > r:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &table[i]
}

// scripts are the blocks of the scripts in which a joiner decides the form of letters:
// Arabic to Myanmar, Khmer and Mongolian, scripts of Indonesia and the Himalaya, Brahmi
// and its descendants.
var scripts = []Row{{First: 0x600, Last: 0x109f}, {First: 0x1700, Last: 0x18af}, {First: 0x1900, Last: 0x1cff}, {First: 0xa800, Last: 0xabff}, {First: 0x10a00, Last: 0x11fff}}

// pictographs are the blocks of arrows, symbols and emoji.
var pictographs = []Row{{First: 0x2190, Last: 0x2bff}, {First: 0x1f000, Last: 0x1faff}}

func in(rows []Row, r rune) bool {
	return slices.ContainsFunc(rows, func(row Row) bool { return row.First <= r && r <= row.Last })
}

// joined reports whether a joiner stays.
func joined(before, after rune) bool {
	letters := in(scripts, before) && in(scripts, after)
	pictures := (in(pictographs, before) || before == 0xfe0f) && in(pictographs, after)
	return letters || pictures
}

// presented reports whether a selector of the presentation stays.
func presented(before, _ rune) bool { return in(pictographs, before) }
