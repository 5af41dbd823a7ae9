#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "math/random.h"

namespace stowage::math {
namespace {

// The vectors for philox4x32, 10 rounds, that Random123 publishes in its file
// of known answers (Salmon et al. 2011).
TEST_CASE("Philox4x32-10 gives the published answers") {
  struct Answer {
    Philox4 counter;
    PhiloxKey key;
    Philox4 words;
  };
  const Answer answers[] = {
      {{{0, 0, 0, 0}},
       {{0, 0}},
       {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       {{0xffffffff, 0xffffffff}},
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {{0xa4093822, 0x299f31d0}},
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Answer& answer : answers) {
    const Philox4 words = Philox4x32(answer.counter, answer.key);
    for (int i = 0; i < 4; ++i) CHECK(words.word[i] == answer.words.word[i]);
  }
}

TEST_CASE("dropouts of one seed have distinct keys, seeds too") {
  std::set<std::pair<uint32_t, uint32_t>> keys;
  for (int64_t seed = 0; seed < 50; ++seed) {
    for (int64_t id = 0; id < 50; ++id) {
      const PhiloxKey key = DropoutKey(seed, id);
      keys.insert({key.word[0], key.word[1]});
    }
  }
  CHECK(keys.size() == 2500);
  CHECK(DropoutKey(1, 0).word[0] != DropoutKey(int64_t{1} << 32, 0).word[0]);
}

TEST_CASE("steps and elements beyond 32 bits have counters of their own") {
  const Philox4 counter =
      DropoutCounter((int64_t{5} << 32) + 6, (int64_t{7} << 32) + 8);
  CHECK(counter.word[0] == 8);
  CHECK(counter.word[1] == 7);
  CHECK(counter.word[2] == 6);
  CHECK(counter.word[3] == 5);
}

TEST_CASE("the threshold drops exactly the words below p") {
  CHECK(DropoutThreshold(0) == 0);
  CHECK(DropoutThreshold(0.5) == uint64_t{1} << 31);
  // A third of 2^32 is 1431655765.33: word 1431655765 is below p.
  CHECK(DropoutThreshold(1.0 / 3) == 1431655766);
  CHECK(DropoutThreshold(1 - 0x1p-33) == uint64_t{1} << 32);
}

}  // namespace
}  // namespace stowage::math
