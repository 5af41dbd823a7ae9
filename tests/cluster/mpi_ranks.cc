// One rank of several that mpirun has started: exchanges values with the others over
// MPI, and tells by its exit code whether the sums are what they must be.
//
//   mpirun -n 2 mpi_ranks
//   mpirun -n 2 mpi_ranks late   # rank 1 ends MPI a while after all are done, or never

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/launch.h"
#include "cluster/link.h"
#include "cluster/rank_collectives.h"
#include "cluster/team.h"
#include "tests/cluster/rank_values.h"

namespace stowage::cluster {
namespace {

template <typename T>
std::span<std::byte> BytesOf(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

int Complain(const std::string& what) {
  std::fprintf(stderr, "mpi_ranks: %s\n", what.c_str());
  return 1;
}

int Run() {
  const Result<Launch> launch = ReadLaunch();
  if (!launch.ok()) return Complain(launch.error().message);
  const Result<std::unique_ptr<MpiLink>> link = MpiLink::Open(*launch);
  if (!link.ok()) return Complain(link.error().message);
  RankCollectives collectives(**link);
  const int rank = collectives.rank(), ranks = collectives.ranks();
  // Small enough for one message, and larger than what MPI sends eagerly.
  for (const size_t count : {1, 7, 1000, 1'000'003}) {
    const auto bytes = static_cast<Bytes>(count * sizeof(float));
    std::vector<std::byte> scratch(
        static_cast<size_t>(CollectiveScratch(bytes, ranks)));
    std::vector<float> values = RankValues<float>(rank, count);
    if (!collectives.AllReduce(DType::kF32, BytesOf(values), scratch)) {
      return Complain("the all-reduce failed: " + (*link)->failure());
    }
    if (values != SumsInRankOrder<float>(ranks, count)) {
      return Complain("the sums are not those in rank order");
    }
    if (!collectives.Broadcast(BytesOf(values)) ||
        values != SumsInRankOrder<float>(ranks, count)) {
      return Complain("the broadcast changed what all had");
    }
  }
  const auto texts =
      GatherTexts(collectives, std::string(static_cast<size_t>(rank), 'r'));
  if (!texts.ok() || std::ssize(*texts) != ranks ||
      std::ssize(texts->back()) != ranks - 1) {
    return Complain("the texts are not gathered");
  }
  (*link)->Finish();
  if (rank == 0) std::printf("%d ranks agree\n", ranks);
  return 0;
}

// Rank 0 ends by 0 where MPI has ended, and by 5 where it had to be left.
int RunLate() {
  const Result<Launch> launch = ReadLaunch();
  if (!launch.ok()) return Complain(launch.error().message);
  const Result<std::unique_ptr<Team>> team = Team::Join(*launch, {});
  if (!team.ok()) return Complain(team.error().message);
  if ((*team)->rank() == 1) {
    (*team)->lifeline().Untie();
    sleep(8);
    raise(SIGKILL);
  }
  const auto leave = [] { _exit(5); };
  return (*team)->Part(leave, std::chrono::seconds(1)) ? 0 : 3;
}

}  // namespace
}  // namespace stowage::cluster

int main(int argc, char** argv) {
  const bool is_late = argc == 2 && std::string_view(argv[1]) == "late";
  return is_late ? stowage::cluster::RunLate() : stowage::cluster::Run();
}
