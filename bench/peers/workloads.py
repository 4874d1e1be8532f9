"""The models of bench/recipes, for the peers: name -> (layer widths, batch, samples, extra layers, hook step)."""
WORKLOADS = {
    "small": dict(widths=[64, 128, 10], batch=32, samples=1437, extra=False, hook=False),
    "lua": dict(widths=[64, 128, 10], batch=32, samples=1437, extra=False, hook=True),
    "big": dict(widths=[784, 1024, 1024, 10], batch=256, samples=8192, extra=False, hook=False),
    "mixed": dict(widths=[784, 1024, 1024, 10], batch=256, samples=8192, extra=True, hook=False),
}
# The model of bench/recipes/gpt.lua.
GPT = dict(vocabulary=90, width=64, heads=4, layers=12, length=64, batch=4)
