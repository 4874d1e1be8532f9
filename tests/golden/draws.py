"""The random numbers of the data path, from their definition: words of Philox4x32-10 (Salmon, Moraes, Dror and Shaw,
2011), as functions of (seed, stream, epoch, sample)."""

AUGMENT, MIXUP = 0x6461000A, 0x6461000B
LOW = 0xFFFFFFFF


def philox(counter, key):
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ key[0], second & LOW, (first >> 32) ^ counter[3] ^ key[1], first & LOW]
        key = [(key[0] + 0x9E3779B9) & LOW, (key[1] + 0xBB67AE85) & LOW]
    return counter


def words(seed, stream, epoch, sample):
    block = 0
    while True:
        yield from philox([block, sample, epoch, stream], [seed, 0])
        block += 1


def unit(random):
    """Uniform in [0, 1)."""
    return next(random) / 2**32


def below(bound, random):
    """Uniform in [0, bound): Lemire, "Fast Random Integer Generation in an Interval", 2019."""
    while True:
        product = next(random) * bound
        if product & LOW >= 2**32 % bound:
            return product >> 32
