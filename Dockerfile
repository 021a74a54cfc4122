# A server without TensorFlow: docker build -t myxtts . && docker run -p 127.0.0.1:8000:8000 myxtts
FROM python:3.13-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY myxtts /source/myxtts
# pip, tests, headers and sources for compilers are a sixth of what is installed.
RUN python -m venv /opt/myxtts \
    && /opt/myxtts/bin/pip install --no-cache-dir --no-compile "/source[serve]" \
    && /opt/myxtts/bin/pip uninstall --yes pip \
    && find /opt/myxtts -type d \( -name tests -o -name test -o -name __pycache__ -o -name include \) -prune -exec rm -r {} + \
    && find /opt/myxtts -type f \( -name "*.pyx" -o -name "*.pxd" -o -name "*.pyi" -o -name "*.lib" -o -name "*.a" \) -delete

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 speaker && install --directory --owner speaker /data
COPY --from=build /opt/myxtts /opt/myxtts
ENV PATH=/opt/myxtts/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 1000
WORKDIR /data
VOLUME /data
EXPOSE 8000 10200
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
# Inside a container every interface is the container's own; what is published decides who reaches it.
ENTRYPOINT ["myxtts", "serve", "--host", "0.0.0.0", "--speakers", "/data/speakers"]
CMD ["--wyoming"]
