#include "cluster/launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/strings.h"

namespace stowage::cluster {
namespace {

// The names under which one launcher tells what all of them do.
struct Names {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_ranks;
};

constexpr Names kLaunchers[] = {
    {"OpenMPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "SLURM_STEP_TASKS_PER_NODE"},
    {"MPICH's mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

// The number that a variable begins with, as "4" or Slurm's "4(x2),3"; absent where
// there is no such variable.
Result<std::optional<int>> Number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::optional<int>();
  const std::string_view view = text;
  int number = 0;
  const auto [end, failed] =
      std::from_chars(view.data(), view.data() + view.size(), number);
  const bool ends =
      end == view.data() + view.size() || *end == '(' || *end == ',';
  if (failed == std::errc() && ends && number >= 0)
    return std::optional(number);
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[cluster] the variable ", name, " is ", Quoted(view),
                      "; expected a number, as its launcher gives")};
}

}  // namespace

Result<Launch> ReadLaunch() {
  for (const Names& names : kLaunchers) {
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> ranks,
                             Number(names.ranks));
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> rank, Number(names.rank));
    if (!ranks || !rank) continue;
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> local,
                             Number(names.local_ranks));
    if (*rank >= *ranks) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[cluster] ", names.rank, " is ", *rank, " and ", names.ranks,
                 " is ", *ranks, "; expected a rank below their number")};
    }
    return Launch{.rank = *rank,
                  .ranks = *ranks,
                  .local_ranks = std::max(local.value_or(1), 1),
                  .launcher = names.launcher,
                  .by_openmpi = &names == kLaunchers};
  }
  return Launch{};
}

int ThreadsOfRank(const Launch& launch, int host_cores, int bound_cores) {
  return std::max(1, std::min(host_cores / launch.local_ranks, bound_cores));
}

int ThreadsOfRank(const Launch& launch) {
  const auto host = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const bool known = sched_getaffinity(0, sizeof(bound), &bound) == 0;
  return ThreadsOfRank(launch, host, known ? CPU_COUNT(&bound) : host);
}

}  // namespace stowage::cluster
