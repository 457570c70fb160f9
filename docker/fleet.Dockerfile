# The image of the fleet command: docker build -f docker/fleet.Dockerfile .
# Without arguments it is the server; any other noun of `fleet help` works as well.
ARG GO=golang:1.26-bookworm

# The same text in both Dockerfiles: the programs are built once for all images.
FROM ${GO} AS build
ARG GOPROXY
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
COPY workers workers
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/ ./cmd/fleet ./workers/... \
 && mkdir -p /root/image/etc/ssl/certs /root/image/tmp /root/image/data && chmod 1777 /root/image/tmp /root/image/data \
 && cp /etc/ssl/certs/ca-certificates.crt /root/image/etc/ssl/certs/

FROM scratch
COPY --from=build /root/image/ /
COPY --from=build /out/fleet /app/fleet
USER 65532:65532
VOLUME /tmp
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=5 CMD ["/app/fleet", "health"]
ENTRYPOINT ["/app/fleet"]
CMD ["serve"]
