//go:build linux

package main

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// readRESP reads one value of RESP 2 or 3 as it is, and the strings in it, simple or bulk; a nil is "\x00".
func readRESP(in *bufio.Reader) (raw []byte, words []string, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	text := strings.TrimRight(string(line[1:]), "\r\n")
	n, _ := strconv.Atoi(text)
	switch line[0] {
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
		part, more, err := readRESP(in)
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
