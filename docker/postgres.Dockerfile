# Debian's Postgres for docker/compose.yaml, on a laptop. In production the record is in a managed Postgres.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/lib/postgresql/* && ln -s /usr/lib/postgresql/*/bin /usr/lib/postgresql/bin \
 && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
COPY docker/postgres.sh /usr/local/bin/serve
USER postgres
VOLUME /var/lib/postgresql/data
HEALTHCHECK --interval=2s --timeout=5s --retries=30 CMD ["/usr/lib/postgresql/bin/pg_isready", "-q", "-h", "127.0.0.1"]
STOPSIGNAL SIGINT
ENTRYPOINT ["/usr/local/bin/serve"]
