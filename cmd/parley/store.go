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

func (a *app) storeCommand() *cobra.Command {
	return group("store", "Move a hub between SQLite and PostgreSQL", a.storeCopyCommand())
}

func (a *app) storeCopyCommand() *cobra.Command {
	var o server.StoreCopy
	cmd := &cobra.Command{
		Use: "copy --from STORE --to STORE", Short: "Copy everything a hub keeps from SQLite to PostgreSQL, or back",
		Long: `Copy everything a hub keeps from SQLite to PostgreSQL, or back. A store is
sqlite:FOLDER, the home of a hub, or postgres://USER@HOST/NAME. Stop every hub that
uses one of them first. The database that is copied to must be empty; it gets everything or
nothing, keeps the chain of the journal, and is compared with it at the end.

After a copy to PostgreSQL, move hub.db out of the home and start the hub there with
--store. A copy to SQLite makes a new home, with the files of --home, the home of a hub
on the database.`,
		Example: `  parley store copy --from sqlite:$HOME/.parley --to 'postgres://parley@db.example.com/parley?sslmode=verify-full'
  parley store copy --from 'postgres://parley@db.example.com/parley?sslmode=verify-full' --to sqlite:/srv/parley`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.From == "" || o.To == "" {
				return usagef("copy needs two stores").WithHint("name them with --from and --to")
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
				fmt.Fprintln(a.err, "copying; the copy is compared with its journal at the end")
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
	f.StringVar(&o.From, "from", "", "the store that is copied")
	f.StringVar(&o.To, "to", "", "the store that is filled")
	f.StringVar(&o.PasswordFile, "store-password-file", "", "file with the password of the database (default the variable PARLEY_STORE_PASSWORD)")
	f.StringVar(&o.NoTLSBecause, "store-no-tls-because", "", "why a database beyond loopback may be used without verified TLS")
	f.StringVar(&o.Machine, "machine", "", "name of the machine whose folders the hub reads (default the name of the host)")
	return cmd
}
