package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gateway/rules"
)

func newHashKey() *cobra.Command {
	return &cobra.Command{
		Use:   "hash-key",
		Short: "Turn keys into the hashes that a group may list instead",
		Long: "hash-key reads keys, one a line, and prints for each the value that a group may list in its place, so that\n" +
			"neither the file nor who reads it has the key. On a terminal it asks for one key and does not show it.\n" +
			"What body.<field> and basic.username hold is compared without case: give such values in lower case.\n\n" +
			"  gateway hash-key < keys.txt > premium.keys",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // which the message must not repeat
				return errors.New("keys are read from stdin or the terminal: the command line is for all to see")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				key, err := askKey(f, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return hashKeys(strings.NewReader(key), cmd.OutOrStdout())
			}
			return hashKeys(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// askKey asks for a key on a terminal, which shows nothing any more by the time it
// shows the question.
func askKey(in *os.File, out io.Writer) (string, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(in.Fd()), before)
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "")
	key, err := t.ReadPassword("Key (not shown): ")
	if errors.Is(err, io.EOF) { // Ctrl-C, Ctrl-D
		return "", errors.New("no key")
	}
	return key, err
}

// hashKeys prints the hash of each line. Empty lines are passed over, and spaces
// around a key are no part of it, as in the header of a request.
func hashKeys(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, rules.MaxSecret)
	w := bufio.NewWriter(out)
	keys := 0
	for lines.Scan() {
		key := strings.Trim(lines.Text(), " \t\r")
		if key == "" {
			continue
		}
		keys++
		sum := sha256.Sum256([]byte(key))
		fmt.Fprintf(w, "sha256:%s\n", hex.EncodeToString(sum[:]))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading keys: line %d: %w", keys+1, err)
	}
	if keys == 0 {
		return errors.New("no key: it is read from stdin, one a line")
	}
	return w.Flush()
}
