package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"time"

	"github.com/redis/rueidis"
)

// Options say where a store is and how it is spoken to.
type Options struct {
	// Addrs are the servers, host:port: one; nodes of a cluster; or with Master its
	// sentinels. At least one.
	Addrs []string
	// Master is the name that sentinels know the servers by; "" is without them.
	Master string
	// TLS says that connections are encrypted; Roots, unless nil, are the authorities
	// that are believed instead of the system's.
	TLS   bool
	Roots *x509.CertPool
	// Username and Password are what to log in with; "" is not at all. Sentinels are
	// not logged in to.
	Username, Password string
	// DB is the number of the database; 0 in a cluster.
	DB int
	// Timeout is the most that a request waits for the store; above 0.
	Timeout time.Duration
	// Prefix begins the name of each key: at most 24 bytes without braces. Gateways
	// count together if they have the same.
	Prefix string
}

// patience is how long setting up a connection may take. Requests do not wait for
// that.
const patience = time.Second

func (o Options) client() rueidis.ClientOption {
	c := rueidis.ClientOption{
		InitAddress: o.Addrs, Username: o.Username, Password: o.Password, SelectDB: o.DB,
		Dialer:       net.Dialer{Timeout: patience, KeepAlive: time.Second},
		DialCtxFn:    dial,
		ClientName:   "gateway",
		DisableCache: true,
		// One connection a server: its commands are in order and go out together.
		PipelineMultiplex: -1, AlwaysPipelining: true, RingScaleEachConn: ringScale,
		ConnWriteTimeout: 2 * time.Second,
		DisableRetry:     true, // a lost reply is not a lost command
		ClientSetInfo:    rueidis.DisableClientSetInfo,
		BlockingPoolSize: 1,
	}
	if o.Master != "" {
		c.Sentinel = rueidis.SentinelOption{MasterSet: o.Master, Dialer: c.Dialer, ClientName: c.ClientName}
	}
	if o.TLS {
		c.TLSConfig = &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
		c.Sentinel.TLSConfig = c.TLSConfig
	}
	return c
}

// dial connects, and names a server that is spoken to by TLS by its own name, which
// differs from node to node.
func dial(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	var c net.Conn
	var err error
	if conf == nil {
		c, err = d.DialContext(ctx, "tcp", addr)
	} else {
		conf = conf.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil {
			conf.ServerName = host
		}
		dialer := tls.Dialer{NetDialer: d, Config: conf}
		c, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	return gathering{c}, nil
}

// gathering is a connection that lets others run before it writes, which write what they
// have to ask together then: a write costs more than all else that is done here for a
// request. With nobody else to run it writes at once.
type gathering struct{ net.Conn }

// Write implements io.Writer.
func (c gathering) Write(p []byte) (int, error) {
	runtime.Gosched()
	return c.Conn.Write(p)
}

// ringScale is the power of two of the commands that may be in flight on a
// connection; mostInFlight is below it, so that none waits for a place.
const (
	ringScale    = 12
	mostInFlight = 1<<ringScale - 512
	// mostLeaving is how many of them give back what requests hold that never left.
	mostLeaving = 256
)

// Check connects to the store, and goes; it changes nothing there. The error names
// no password.
func Check(ctx context.Context, o Options) error {
	done := make(chan error, 1)
	go func() { // connecting takes no context
		client, err := rueidis.NewClient(o.client())
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err = client.Do(ctx, client.B().Ping().Build()).Error()
			cancel()
			client.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
