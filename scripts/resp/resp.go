// Package resp reads what Redis and its clients say to each other, for what stands between them in tests.
package resp

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Read reads one value of RESP 2 or 3 as it is, and the strings in it, simple or bulk; a nil is "\x00". What is no RESP
// (TLS) comes as it came.
func Read(in *bufio.Reader) (raw []byte, words []string, err error) {
	peeked, err := in.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	first := peeked[0] // a copy: what was peeked changes with the next read
	if !strings.ContainsRune("+-:_#,($=!*~>%|", rune(first)) {
		raw = make([]byte, in.Buffered())
		_, err = io.ReadFull(in, raw)
		return raw, nil, err
	}
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	text := strings.TrimRight(string(line[1:]), "\r\n")
	n, _ := strconv.Atoi(text)
	switch first {
	case '$', '=', '!':
		return readBulk(in, line, n)
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return line, []string{text}, nil
	}
	raw = line
	for range n {
		part, more, err := Read(in)
		if err != nil {
			return nil, nil, err
		}
		raw, words = append(raw, part...), append(words, more...)
	}
	return raw, words, nil
}

func readBulk(in *bufio.Reader, line []byte, n int) ([]byte, []string, error) {
	if n < 0 {
		return line, []string{"\x00"}, nil
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, nil, err
	}
	return append(line, body...), []string{string(body[:n])}, nil
}
