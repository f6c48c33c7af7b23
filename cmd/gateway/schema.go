package main

import (
	"github.com/spf13/cobra"

	"gateway/rules"
)

func newSchema() *cobra.Command {
	var included bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the file, for editors",
		Long: "schema prints the JSON schema (draft-07) of the file. An editor that knows it completes settings, says what\n" +
			"they are for, and marks most of what `gateway check` would refuse. With the YAML language server, in VS Code and\n" +
			"others, save it and begin the file with the line\n\n  # yaml-language-server: $schema=gateway.schema.json\n\n" +
			"With --included it is that of the files that `include` names.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema := rules.Schema
			if included {
				schema = rules.IncludedSchema
			}
			_, err := cmd.OutOrStdout().Write(schema())
			return err
		},
	}
	cmd.Flags().BoolVar(&included, "included", false, "that of the files that include names")
	return cmd
}
