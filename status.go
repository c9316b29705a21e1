package main

import "io"

func status(args []string, s *settings, w io.Writer) error { return nil }
