#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cluster/team.h"
#include "tests/cluster/on_ranks.h"

namespace stowage::cluster {
namespace {

// What each of three ranks says of the facts that rank 2 has.
std::vector<std::string> Answers(const Facts& others, const Facts& odd) {
  std::vector<std::string> answers(3, "none");
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    const Status agreed = Agree(collectives, link.rank() == 2 ? odd : others);
    answers[static_cast<size_t>(link.rank())] =
        agreed.ok() ? "" : agreed.error().message;
  });
  return answers;
}

TEST_CASE("ranks that have all in common agree") {
  const Facts facts = {{"program", "1.0"}, {"data", "a\nb"}, {"budget", ""}};
  CHECK(Answers(facts, facts) == std::vector<std::string>(3));
}

TEST_CASE("what differs is told at all ranks, with the rank and both values") {
  const Facts facts = {{"program", "1.0"}, {"data", "a.txt (7 bytes)"}};
  const Facts odd = {{"program", "1.0"}, {"data", "a.txt (8 bytes)"}};
  CHECK(Answers(facts, odd) ==
        std::vector<std::string>(
            3,
            "[cluster] the ranks differ: data of rank 2 is a.txt (8 bytes), of "
            "rank 0 a.txt (7 bytes); all must be the same"));
}

TEST_CASE("lines of a value stay one value") {
  const Facts facts = {{"data", "a\nb"}, {"seed", "1"}};
  const Facts odd = {{"data", "a\nc"}, {"seed", "1"}};
  CHECK(Answers(facts, odd)[1] ==
        "[cluster] the ranks differ: data of rank 2 is a c, of rank 0 a b; all "
        "must be the same");
}

TEST_CASE("a rank that tells of more differs") {
  const Facts facts = {{"program", "1.0"}};
  const Facts odd = {{"program", "1.0"}, {"data", "a.txt"}};
  CHECK(
      Answers(facts, odd)[0] ==
      "[cluster] the ranks differ: rank 2 tells 2 facts of its run, rank 0 1; "
      "start the same program everywhere");
}

}  // namespace
}  // namespace stowage::cluster
