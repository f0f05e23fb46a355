package acpv2

// TextBlock returns a block of text.
func TextBlock(text string) ContentBlock {
	return ContentBlock{Text: &TextContent{Text: text}}
}
