# The gateway as an image: one static binary, no shell, not root.
#
#   docker build -t gateway .
#   docker run -p 8080:8080 -v "$PWD/etc:/etc/gateway:ro" -v gateway:/var/lib/gateway gateway
#
# For several platforms: docker buildx build --platform linux/amd64,linux/arm64 -t gateway .
#
# Mount the folder that holds gateway.yaml, not the file: editors save by putting a new
# file in the place of the old one, and a mount of the file would go on showing the old.
# /var/lib/gateway keeps what should outlive the container: certificates, and what clients have used.
# The admin listener stays on the container's loopback, where the health check asks it.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w" -o /out/gateway ./cmd/gateway
RUN mkdir -m 0700 /out/state

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
COPY --from=build --chown=65532:65532 /out/state /var/lib/gateway
COPY --from=build /out/gateway /usr/bin/gateway
ENV GATEWAY_CONFIG=/etc/gateway/gateway.yaml \
    STATE_DIRECTORY=/var/lib/gateway
USER 65532:65532
# Keys and certificates of `tls`, and what clients have used: keep the volume, or each new
# container orders new ones, and lets everybody begin afresh.
VOLUME /var/lib/gateway
EXPOSE 8080 80 443
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/usr/bin/gateway", "healthcheck"]
ENTRYPOINT ["/usr/bin/gateway"]
CMD ["run"]
