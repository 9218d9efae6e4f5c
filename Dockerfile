# docker build -t walflow .                                  with extras: --build-arg EXTRAS=kafka,avro
# docker run --read-only -v "$PWD/flows:/etc/walflow:ro" -v walflow:/var/lib/walflow walflow run /etc/walflow/main.troy

# Any Debian with a `python` that can make a virtual environment.
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv /opt/walflow
COPY pyproject.toml README.md LICENSE walflow_command.py ./
COPY walflow walflow
COPY connectors connectors
COPY pyspark_walflow pyspark_walflow
COPY walflow_kernel walflow_kernel
COPY packaging packaging
COPY editors editors
ARG EXTRAS=
RUN /opt/walflow/bin/pip install --no-cache-dir --disable-pip-version-check ".${EXTRAS:+[$EXTRAS]}" \
    && /opt/walflow/bin/python -m compileall -q /opt/walflow/lib

FROM ${BASE}
# A fixed number: the volume's files belong to it, in this image and in the next.
RUN useradd --system --uid 9898 --user-group --no-create-home --home-dir /var/lib/walflow walflow \
    && install --directory --mode 0700 --owner walflow --group walflow /var/lib/walflow
COPY --from=build /opt/walflow /opt/walflow
COPY flows/echo /etc/walflow
ENV PATH=/opt/walflow/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 9898:9898
# Relative paths in flow files lie here, and nothing else is written: the rest may be read-only.
WORKDIR /var/lib/walflow
VOLUME /var/lib/walflow
STOPSIGNAL SIGTERM
# From inside, on loopback. For Prometheus outside: --admin 0.0.0.0:9898 --admin-token-file, and publish the port.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["walflow", "status", "--ready"]
ENTRYPOINT ["walflow"]
CMD ["run", "/etc/walflow/server.troy"]
