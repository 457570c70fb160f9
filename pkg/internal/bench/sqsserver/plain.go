package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

const pollSeconds = 5

// plain is a client on one connection that does as little as can be: it writes ready-made requests, and of a reply it
// reads the receipt handles. Any server of the JSON protocol takes it.
type plain struct {
	conn  net.Conn
	in    *bufio.Reader
	host  string
	queue string // its URL, quoted
	fifo  bool
	body  string

	request, out, reply bytes.Buffer
}

func dialPlain(url, queue string, fifo bool, bodyBytes int) (*plain, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	return &plain{conn: conn, in: bufio.NewReaderSize(conn, 32<<10), host: host, queue: strconv.Quote(queue), fifo: fifo, body: strings.Repeat("x", bodyBytes)}, nil
}

// call makes one exchange; header is the line that tells the server what to do.
func (c *plain) call(ctx context.Context, header string, body []byte) ([]byte, error) {
	if end, ok := ctx.Deadline(); ok {
		_ = c.conn.SetDeadline(end)
	}
	c.out.Reset()
	fmt.Fprintf(&c.out, "POST / HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Type: application/x-amz-json-1.0\r\n"+
		"Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0\r\n"+
		"Content-Length: %d\r\n\r\n", c.host, header, len(body))
	c.out.Write(body)
	if _, err := c.conn.Write(c.out.Bytes()); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	c.reply.Reset()
	_, err = io.Copy(&c.reply, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || bytes.Contains(c.reply.Bytes(), []byte(`"Failed":[{`)) {
		return nil, fmt.Errorf("%s: %s: %s", header, resp.Status, c.reply.Bytes())
	}
	return c.reply.Bytes(), nil
}

// entries writes a batch of n, the members of each by member.
func (c *plain) entries(n int, member func(i int)) []byte {
	c.request.Reset()
	fmt.Fprintf(&c.request, `{"QueueUrl":%s,"Entries":[`, c.queue)
	for i := range n {
		if i > 0 {
			c.request.WriteByte(',')
		}
		fmt.Fprintf(&c.request, `{"Id":"%d",`, i)
		member(i)
		c.request.WriteByte('}')
	}
	c.request.WriteString(`]}`)
	return c.request.Bytes()
}

func (c *plain) send(ctx context.Context, first int64) error {
	_, err := c.call(ctx, "X-Amz-Target: AmazonSQS.SendMessageBatch", c.entries(batch, func(i int) {
		c.request.WriteString(`"MessageBody":"`)
		c.request.WriteString(c.body)
		c.request.WriteByte('"')
		if n := first + int64(i); c.fifo {
			fmt.Fprintf(&c.request, `,"MessageGroupId":"g%d","MessageDeduplicationId":"%d"`, n%groups, n)
		}
	}))
	return err
}

func (c *plain) receive(ctx context.Context) (handles []string, err error) {
	c.request.Reset()
	fmt.Fprintf(&c.request, `{"QueueUrl":%s,"MaxNumberOfMessages":%d,"WaitTimeSeconds":%d}`, c.queue, batch, pollSeconds)
	reply, err := c.call(ctx, "X-Amz-Target: AmazonSQS.ReceiveMessage", c.request.Bytes())
	const before = `"ReceiptHandle":"`
	for err == nil {
		i := bytes.Index(reply, []byte(before))
		if i < 0 {
			break
		}
		reply = reply[i+len(before):]
		end := max(0, bytes.IndexByte(reply, '"'))
		handles = append(handles, string(reply[:end]))
	}
	return handles, err
}

func (c *plain) remove(ctx context.Context, handles []string) error {
	_, err := c.call(ctx, "X-Amz-Target: AmazonSQS.DeleteMessageBatch", c.entries(len(handles), func(i int) {
		fmt.Fprintf(&c.request, `"ReceiptHandle":"%s"`, handles[i])
	}))
	return err
}

// perMessage is what ids, checksums and handles add to a body in a reply.
const perMessage = 150

// exchange moves the same bytes in the same number of calls through a server that does nothing: a batch in, a batch out,
// a delete.
func (l *load) exchange(ctx context.Context) {
	c, err := dialPlain(l.url, "", false, l.body)
	if err != nil {
		l.note(ctx, err)
		return
	}
	steps := [][2]int{{batch * (l.body + 60), batch * perMessage}, {200, batch * (l.body + perMessage)}, {batch * 80, batch * 15}}
	for ctx.Err() == nil {
		for _, s := range steps {
			if _, err := c.call(ctx, fmt.Sprintf("%s: %d", replyBytes, s[1]), bytes.Repeat([]byte("x"), s[0])); err != nil {
				l.note(ctx, err)
				return
			}
		}
		l.receives.Add(1)
		l.consumed.Add(batch)
	}
}
