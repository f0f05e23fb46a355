package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/server"
)

func (a *app) hubMoveCommand() *cobra.Command {
	var o server.StoreCopy
	cmd := &cobra.Command{
		Use: "move --from STORE --to STORE", Short: "Copy a hub between SQLite and PostgreSQL",
		Long: `Copy all data of a hub from SQLite to PostgreSQL, or back. A store is sqlite:FOLDER, the
home of a hub, or postgres://USER@HOST/NAME. Stop every hub that uses either of them
first. The target must be empty. It gets all data or none, keeps the chain of the
journal, and is verified against it at the end.

After a copy to PostgreSQL, move hub.db out of the home and start the hub there with
--store. A copy to SQLite creates a new home, with the files of --home, the home of a
hub that uses the database.`,
		Example: `  parley hub move --from sqlite:$HOME/.parley --to 'postgres://parley@db.example.com/parley?sslmode=verify-full'
  parley hub move --from 'postgres://parley@db.example.com/parley?sslmode=verify-full' --to sqlite:/srv/parley`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.From == "" || o.To == "" {
				return usagef("--from and --to are required").WithHint("for example: --from sqlite:FOLDER --to postgres://USER@HOST/NAME")
			}
			if o.Home, err = a.homeDir(); err != nil {
				return err
			}

			// The folder of an SQLite store may be relative to the working folder.
			for _, store := range []*string{&o.From, &o.To} {
				if dir, ok := strings.CutPrefix(*store, "sqlite:"); ok && dir != "" {
					if dir, err = filepath.Abs(dir); err != nil {
						return err
					}
					*store = "sqlite:" + dir
				}
			}

			// Settings without a flag come from the configuration of the home.
			c, err := a.loadConfig(o.Home)
			if err != nil {
				return err
			}
			settings, err := c.settings("store_password_file", "store_no_tls_because", "machine")
			if err != nil {
				return err
			}
			if o.PasswordFile == "" {
				o.PasswordFile = settings.StorePasswordFile
			}
			if o.NoTLSBecause == "" {
				o.NoTLSBecause = settings.StoreNoTLSBecause
			}
			if o.Machine == "" {
				o.Machine = settings.Machine
			}

			if !a.json {
				fmt.Fprintln(a.err, "copying; the copy is verified against its journal at the end")
			}
			got, err := server.CopyStore(cmd.Context(), o)
			if err != nil {
				return err
			}

			return a.check(got.Clean(), struct {
				OK bool `json:"ok"`
				records.Audit
			}{got.Clean(), got}, func(w io.Writer) { a.writeAudit(w, got) })
		},
	}

	f := cmd.Flags()
	f.StringVar(&o.From, "from", "", "store to copy")
	f.StringVar(&o.To, "to", "", "empty store to copy to")
	f.StringVar(&o.PasswordFile, "store-password-file", "", "file with the database password (default the password in $PARLEY_STORE_PASSWORD)")
	f.StringVar(&o.NoTLSBecause, "store-no-tls-because", "", "reason to use a database beyond loopback without verified TLS")
	f.StringVar(&o.Machine, "machine", "", "name of the machine whose folders this hub can read (default the host name)")
	return cmd
}
