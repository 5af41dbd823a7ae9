#include "gpu/nccl.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cluster/link.h"
#include "cluster/rank_collectives.h"
#include "runtime/backend.h"
#include "tests/cluster/on_ranks.h"

namespace stowage::gpu {
namespace {

constexpr int kCuda = 13;

// The library that STOWAGE_NCCL names from here to the end of its scope.
class Chosen {
 public:
  explicit Chosen(const std::string& path) {
    REQUIRE(setenv("STOWAGE_NCCL", path.c_str(), 1) == 0);
  }
  ~Chosen() { unsetenv("STOWAGE_NCCL"); }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;
};

std::string FakePath() { return std::getenv("STOWAGE_FAKE_NCCL"); }

TEST_CASE("each rank's bytes come to those it sends them to") {
  const Chosen chosen(FakePath());
  for (const int ranks : {2, 4}) {
    cluster::OnRanks(ranks, [&](cluster::Link& link) {
      cluster::RankCollectives collectives(link);
      auto nccl = Nccl::Join(collectives, kCuda);
      REQUIRE_MESSAGE(nccl.ok(), nccl.error().message);
      CHECK((*nccl)->rank() == link.rank());
      CHECK((*nccl)->ranks() == ranks);
      CHECK((*nccl)->version() == 22703);
      CHECK((*nccl)->path().find("fake_nccl") != std::string::npos);
      // Rank r sends 10 r + p, p + 1 times, to rank p.
      std::vector<std::vector<std::byte>> sent, received;
      for (int peer = 0; peer < ranks; ++peer) {
        sent.emplace_back(static_cast<size_t>(peer + 1),
                          static_cast<std::byte>(10 * link.rank() + peer));
        received.emplace_back(static_cast<size_t>(link.rank() + 1));
      }
      std::vector<PeerMessages> messages;
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == link.rank()) continue;
        const auto at = static_cast<size_t>(peer);
        messages.push_back(
            {.peer = peer, .sent = sent[at], .received = received[at]});
      }
      for (int round = 0; round < 3; ++round) {
        const Status done = (*nccl)->Exchange(messages, nullptr);
        REQUIRE_MESSAGE(done.ok(), done.error().message);
        for (const PeerMessages& each : messages) {
          const auto expected =
              static_cast<std::byte>(10 * each.peer + link.rank());
          for (std::byte& byte : each.received) {
            CHECK(byte == expected);
            byte = std::byte{};
          }
        }
      }
    });
  }
}

TEST_CASE("nothing is sent where a span is empty") {
  const Chosen chosen(FakePath());
  cluster::OnRanks(2, [&](cluster::Link& link) {
    cluster::RankCollectives collectives(link);
    auto nccl = Nccl::Join(collectives, kCuda);
    REQUIRE(nccl.ok());
    std::byte byte{3};
    const std::span<std::byte> one(&byte, 1);
    // From rank 0 to rank 1 alone.
    PeerMessages messages = {.peer = 1 - link.rank()};
    if (link.rank() == 0) messages.sent = one;
    if (link.rank() == 1) messages.received = one;
    if (link.rank() == 1) byte = {};
    CHECK((*nccl)->Exchange({&messages, 1}, nullptr).ok());
    CHECK(byte == std::byte{3});
  });
}

TEST_CASE("NCCL's own errors are told, with the rank") {
  const Chosen chosen(FakePath());
  OneRank alone;
  auto nccl = Nccl::Join(alone, kCuda);
  REQUIRE(nccl.ok());
  std::byte byte{};
  const PeerMessages to_nobody = {.peer = 4, .sent = {&byte, 1}};
  const Status sent = (*nccl)->Exchange({&to_nobody, 1}, nullptr);
  REQUIRE_FALSE(sent.ok());
  CHECK(sent.error().code == ErrorCode::kDevice);
  CHECK(sent.error().message ==
        StrCat("[gpu] NCCL of ", (*nccl)->path(),
               ": invalid usage from ncclSend or ncclRecv at rank 0 of 1"));
  REQUIRE(setenv("FAKE_NCCL_FAILS", "1", 1) == 0);
  const auto refused = Nccl::Join(alone, kCuda);
  REQUIRE(unsetenv("FAKE_NCCL_FAILS") == 0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        StrCat("[gpu] NCCL of ", (*nccl)->path(),
               ": invalid usage from ncclCommInitRank at rank 0 of 1"));
}

TEST_CASE("without NCCL it is said where it was looked for") {
  OneRank alone;
  {
    const Chosen chosen("/nowhere/libnccl.so");
    const auto nccl = Nccl::Join(alone, kCuda);
    REQUIRE_FALSE(nccl.ok());
    CHECK(nccl.error().code == ErrorCode::kDevice);
    CHECK(nccl.error().message ==
          "[gpu] libnccl.so.2 cannot be loaded; tried /nowhere/libnccl.so; "
          "install NCCL (libnccl2, or NVIDIA's wheel in a Python environment), "
          "or name the file or its folder in STOWAGE_NCCL");
  }
  const Chosen chosen("libm.so.6");
  const auto nccl = Nccl::Join(alone, kCuda);
  REQUIRE_FALSE(nccl.ok());
  CHECK(nccl.error().message.find(
            "is no NCCL of version 2.7 or later: it lacks ncclGetVersion") !=
        std::string::npos);
}

// Rank 0 of two, of which the other says what it is told to.
class WithAnother final : public Collectives {
 public:
  WithAnother(bool is_there, int32_t version)
      : is_there_(is_there), version_(version) {}

  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  bool AllReduce(DType, std::span<std::byte>,
                 std::span<std::byte>) noexcept override {
    return false;
  }
  bool ReduceScatter(DType, std::span<const std::byte>, std::span<std::byte>,
                     std::span<std::byte>) noexcept override {
    return false;
  }
  // A block ends with the version.
  bool AllGather(std::span<const std::byte> block,
                 std::span<std::byte> values) noexcept override {
    std::memcpy(values.data(), block.data(), block.size());
    std::memcpy(values.data() + values.size() - sizeof(version_), &version_,
                sizeof(version_));
    return is_there_;
  }

 private:
  const bool is_there_;
  const int32_t version_;
};

TEST_CASE("what another rank lacks is told here") {
  const Chosen chosen(FakePath());
  const auto message = [](bool is_there, int32_t version) {
    WithAnother ranks(is_there, version);
    const auto nccl = Nccl::Join(ranks, kCuda);
    REQUIRE_FALSE(nccl.ok());
    CHECK(nccl.error().code ==
          (is_there ? ErrorCode::kDevice : ErrorCode::kRankLost));
    return nccl.error().message;
  };
  CHECK(message(true, 0) == "[gpu] rank 1 of 2 has no NCCL");
  CHECK(message(true, 22602) ==
        "[gpu] NCCL of rank 1 is version 22602, of rank 0 22703; all must be "
        "the same");
  CHECK(message(false, 22703) ==
        "[gpu] a rank was lost before NCCL had joined its GPU");
}

}  // namespace
}  // namespace stowage::gpu
