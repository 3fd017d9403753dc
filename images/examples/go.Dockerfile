# A worker in Go: docker build -f images/examples/go.Dockerfile -t routes:1 .
FROM docker.io/library/golang:1.24-bookworm AS build
WORKDIR /src
COPY sdk/go sdk/go
COPY examples/polyglot/routes examples/polyglot/routes
RUN CGO_ENABLED=0 go build -C examples/polyglot/routes -trimpath -o /routes .

FROM docker.io/millstream/static:0.1.0
COPY --from=build /routes /app/routes
ENTRYPOINT ["/app/routes"]
