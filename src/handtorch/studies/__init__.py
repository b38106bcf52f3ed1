"""One file, one question, one verdict; `STUDIES` lists them in the order `study all` runs them.

A study is a module with

    QUESTION    one sentence that a figure of the study answers
    run(at)     measures, writes results, published values and a verdict into `at.record`, and
                gives the text to show (see `study.Setting`)
"""

STUDIES = {
    "digits": "handtorch.studies.digits",
    "sgemm": "handtorch.studies.sgemm",
    "backprop": "handtorch.studies.backprop",
    "rnn": "handtorch.studies.rnn",
    "daily": "handtorch.studies.daily",         # before training, which judges by its days too
    "training": "handtorch.studies.training",
    "recognize": "handtorch.studies.recognize",
}
# Seconds of each quick form on two cores of a virtual machine: for the time left, of which only
# their ratios matter.
QUICK_S = {"digits": 7.0, "sgemm": 46.0, "backprop": 27.0, "rnn": 54.0, "training": 84.0,
           "daily": 7.0, "recognize": 49.0}
