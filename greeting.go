package main

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The answer to the handshake. For go-redis any error there is that of a server which does not know HELLO, and it goes on;
// but a server that turns clients away says so to the first that it is asked, and hears nothing more. Were the connection
// taken for one that stands, what is sent next would count as perhaps executed.

// refusals are what a server says that closes the connection.
var refusals = []string{"max number of clients reached", "DENIED "}

// A turnedAway is such an answer. It is no redis.Error, so that go-redis gives the connection up.
type turnedAway string

func (t turnedAway) Error() string { return string(t) }

// A greeting watches for it.
type greeting struct{}

func greeted(c *redis.Client) *redis.Client {
	c.AddHook(greeting{})
	return c
}

func (greeting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (greeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (greeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		var said redis.Error
		if cmd.Name() != "hello" || !errors.As(err, &said) {
			return err
		}
		if text := strings.TrimPrefix(said.Error(), "ERR "); startsWith(text, refusals) {
			err = turnedAway(text)
			cmd.SetErr(err)
		}
		return err
	}
}
