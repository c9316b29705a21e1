package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The values of options, as text: a set function changes the option only if the value is right, and else says why.

func setBool(to *bool, v string) error {
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		*to = true
	case "0", "false", "no", "off":
		*to = false
	default:
		return errors.New("neither yes nor no")
	}
	return nil
}

func setWord(to *string, v string, words ...string) error {
	if !slices.Contains(words, v) {
		return errors.New("not " + strings.Join(words, " or "))
	}
	*to = v
	return nil
}

func setNumber(to *int, v string, low, high int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return fmt.Errorf("not a number from %d to %d", low, high)
	}
	*to = n
	return nil
}

func setDuration(to *time.Duration, v string, least time.Duration) error {
	d, err := parseDuration(v)
	if err != nil {
		return err
	}
	if d < least {
		return fmt.Errorf("shorter than %v", least)
	}
	*to = d
	return nil
}
