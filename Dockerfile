# `sage serve` in a container; how to run it: docs/sage/operate.md. `scripts/build_image.sh` builds it and tries it.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
WORKDIR /source
COPY constraints.txt ./
COPY src/rl_base src/rl_base
COPY src/sage src/sage
RUN python3 -m venv /opt/sage \
  && /opt/sage/bin/pip install --no-cache-dir -c constraints.txt ./src/rl_base "./src/sage[serve]"

FROM ${BASE}
COPY --from=build /opt/sage /opt/sage
ENV PATH=/opt/sage/bin:$PATH HOME=/data PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN mkdir -p /data && chown 10001:10001 /data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8484
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["/opt/sage/bin/python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8484/healthz', timeout=4)"]
ENTRYPOINT ["sage"]
# Listening on all addresses is refused until /data/sage-keys.json holds a key.
CMD ["serve", "--host", "0.0.0.0", "--models", "/etc/sage/models.yaml", "--db", "/data/sage.db", "--keys", "/data/sage-keys.json"]
