# simsys in a small image, without root:
#   docker build -t simsys . && docker run --rm simsys
#   docker run --rm -v "$PWD:/home/simsys/files" simsys run files/my-experiment.yaml --no-files
FROM python:3.12-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY simsys simsys
COPY frameworks frameworks
COPY hardware_profiles hardware_profiles
COPY model_db model_db
COPY experiments experiments
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.12-slim
COPY requirements-run.lock /wheel/
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir --require-hashes -r /wheel/requirements-run.lock \
    && pip install --no-cache-dir --no-deps /wheel/*.whl \
    && useradd --create-home --uid 1000 simsys
WORKDIR /home/simsys
COPY --chown=simsys:simsys experiments experiments
USER simsys
ENV MPLCONFIGDIR=/home/simsys/.config/matplotlib
ENTRYPOINT ["simsys"]
CMD ["run", "experiments/experiment_config.yaml"]
