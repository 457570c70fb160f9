# The image of one stage's worker: docker build -f docker/worker.Dockerfile --build-arg STAGE=compile --target tools .
#
# Target "tools" has the Debian packages that scripts/tools.txt names for the stage, target "bare" nothing but the binary:
# docker/images.sh chooses. Where no registry can be reached, docker/base.sh makes BASE and GO.
ARG BASE=debian:bookworm-slim
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

FROM scratch AS bare
ARG STAGE
COPY --from=build /root/image/ /
COPY --from=build /out/${STAGE} /app/worker
# The number is nobody's on the host. /tmp is the only folder that a worker writes to: mount a volume there and the rest
# may be read-only.
USER 65532:65532
VOLUME /tmp
ENV FLEET_HEALTH_ADDR=127.0.0.1:9090
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=5 CMD ["/app/worker", "health"]
ENTRYPOINT ["/app/worker"]

FROM ${BASE} AS tools
COPY scripts/tools.txt /tmp/
# What all stages with tools have comes first, in a layer that their images share.
RUN packages=$(awk -F: '/^[a-z0-9-]+: *[^ ]/ && $1 != "sample" { n++; k = split($2, p, " "); for (i = 1; i <= k; i++) c[p[i]]++ } \
 END { for (name in c) if (c[name] == n) print name }' /tmp/tools.txt) && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates $packages >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* && mkdir -m 1777 /data
ARG STAGE
RUN packages=$(sed -n "s/^${STAGE}://p" /tmp/tools.txt) && test -n "$packages" && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /tmp/*
COPY --from=build /out/${STAGE} /app/worker
USER 65532:65532
VOLUME /tmp
ENV FLEET_HEALTH_ADDR=127.0.0.1:9090
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=5 CMD ["/app/worker", "health"]
ENTRYPOINT ["/app/worker"]
