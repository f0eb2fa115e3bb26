"""Python callables on samples and batches."""

import itertools
import random
import time

import millrace as mr
import numpy
import pytest
from test_loader import open_loader, samples_of


def darken(sample, rng):
    time.sleep(random.random() / 500)  # threads finish in any order
    noise = rng.integers(0, 64, sample["image"].shape, dtype=numpy.uint8)
    return {
        "image": sample["image"] // 2 + noise,
        "label": sample["label"],
        "key": sample["__key__"],
    }


def mapped(photos, how, **options):
    with open_loader(photos, map=how, **options) as loader:
        return [(loader.keys(), batch["image"].tobytes(), batch["key"]) for batch in loader]


@pytest.mark.parametrize("threads", [0, 1, 3, 8])
def test_results_do_not_depend_on_threads(photos, threads):
    expected = mapped(photos, mr.Map(darken, threads=0))
    found = mapped(photos, mr.Map(darken, threads=threads))
    assert found == expected
    assert all(keys == key for keys, _, key in found)
    with open_loader(photos) as loader:
        assert [keys for keys, _, _ in found] == [loader.keys() for _ in loader]


def test_ranks_and_batch_sizes_do_not_matter(photos):
    def by_key(**options):
        with open_loader(photos, map=darken, tail="keep", **options) as loader:
            pairs = [zip(batch["key"], batch["image"], strict=True) for batch in loader]
        return {key: image.tobytes() for key, image in itertools.chain(*pairs)}

    alone = by_key(batch_size=8)
    shared = {}
    for rank in range(3):
        shared |= by_key(batch_size=3, rank=rank, world_size=3)
    assert shared == alone


def test_a_state_is_that_of_the_yielded_batch(photos):
    how = mr.Map(darken, threads=3)
    whole = mapped(photos, how)
    for stop in range(len(whole)):
        loader = open_loader(photos, map=how)
        list(itertools.islice(loader, stop))
        resumed = open_loader(photos, map=how)
        resumed.load_state_dict(loader.state_dict())
        rest = [(resumed.keys(), batch["image"].tobytes(), batch["key"]) for batch in resumed]
        assert rest == whole[stop:]
        loader.close()
        resumed.close()


def test_a_batch_is_mapped_at_once(photos):
    def count(batch, generators):
        assert len(generators) == len(batch["__key__"])
        return {"count": len(batch["label"])}

    with open_loader(photos, map=mr.Map(count, by="batch"), tail="keep") as loader:
        counts = [batch["count"] for batch in loader]
    assert counts == [8] * 9 + [5]


def test_an_exception_reaches_the_consumer(photos):
    def fail(sample, rng):
        raise KeyError(sample["__key__"])

    with open_loader(photos, map=fail) as loader, pytest.raises(KeyError):
        next(iter(loader))


def test_fields_that_differ_are_refused(photos):
    def differ(sample, rng):
        return {sample["__key__"]: 1}

    with open_loader(photos, map=differ) as loader, pytest.raises(ValueError, match="different"):
        next(iter(loader))


def test_values_that_do_not_stack_are_lists(photos):
    def crop(sample, rng):
        return {"part": sample["image"][: int(rng.integers(1, 20))], "name": sample["__key__"]}

    with open_loader(photos, map=crop) as loader:
        batch = next(iter(loader))
        assert isinstance(batch["part"], list)
        assert batch["name"] == loader.keys()


def test_the_loader_without_a_map_is_unchanged(photos):
    def same(sample, rng):
        return {"image": sample["image"], "label": sample["label"]}

    with open_loader(photos) as plain, open_loader(photos, map=same) as mapped_loader:
        assert samples_of(plain, plain) == samples_of(mapped_loader, mapped_loader)


def test_an_exception_loses_no_batch(photos):
    whole = batches_of(photos)
    fails = [False]

    def sometimes(sample, rng):
        if fails[0]:
            raise KeyError(sample["__key__"])
        return darken(sample, rng)

    for threads in (0, 3):
        loader = open_loader(photos, map=mr.Map(sometimes, threads=threads))
        seen = [next(iter(loader))["key"]]
        fails[0] = True
        with pytest.raises(KeyError):
            for batch in loader:
                seen.append(batch["key"])
        fails[0] = False
        seen += [batch["key"] for batch in loader]
        assert seen == whole


def batches_of(photos) -> list[list[str]]:
    loader = open_loader(photos)
    return [loader.keys() for _ in loader]


def test_a_state_carries_the_seed_to_the_generators(photos):
    state = open_loader(photos).state_dict()
    expected = [batch["image"].tobytes() for batch in open_loader(photos, map=darken)]
    other = open_loader(photos, map=darken, seed=8)
    other.load_state_dict(state)
    assert [batch["image"].tobytes() for batch in other] == expected


def test_generators_of_large_seeds_differ():
    draws = {
        mr.mapping.generator(seed, (0, 0, 1)).integers(1 << 62) for seed in (0, 2**63, 2**64 - 1)
    }
    assert len(draws) == 3
