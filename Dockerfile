# The gateway as an image: one static binary, no shell, not root.
#
#   docker build -t gateway .
#   docker run -p 8080:8080 -v "$PWD/etc:/etc/gateway:ro" gateway
#
# Mount the folder that holds gateway.yaml, not the file: editors save by putting a new
# file in the place of the old one, and a mount of the file would go on showing the old.
# The admin listener stays on the container's loopback, where the health check asks it.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=devel
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/gateway ./cmd/gateway
RUN mkdir /out/data

FROM scratch
ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gateway" \
      org.opencontainers.image.description="Rate-limiting reverse proxy in front of an API" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# The authorities that https upstreams are checked against.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/gateway /usr/bin/gateway
# Keys and certificates of `tls`: keep the volume, or each new container orders new ones.
COPY --from=build --chown=65532:65532 --chmod=700 /out/data /var/lib/gateway
VOLUME /var/lib/gateway
ENV GATEWAY_CONFIG=/etc/gateway/gateway.yaml XDG_DATA_HOME=/var/lib
USER 65532:65532
EXPOSE 8080 80 443
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/usr/bin/gateway", "healthcheck"]
ENTRYPOINT ["/usr/bin/gateway"]
CMD ["run"]
