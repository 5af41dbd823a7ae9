#include "cluster/launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "cluster/slurm_lists.h"

namespace stowage::cluster {
namespace {

// The names under which one launcher tells what all of them do.
struct Names {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // null: in a list of all hosts
};

constexpr Names kLaunchers[] = {
    {"OpenMPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
    {"MPICH's mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS"},
};

// The number that a variable is; absent where there is no such variable.
Result<std::optional<int>> Number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::optional<int>();
  const std::string_view view = text;
  int number = 0;
  const auto [end, failed] =
      std::from_chars(view.data(), view.data() + view.size(), number);
  const bool ends = end == view.data() + view.size();
  if (failed == std::errc() && ends && number >= 0)
    return std::optional(number);
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[cluster] the variable ", name, " is ", Quoted(view),
                      "; expected a number, as its launcher gives")};
}

// The place of this host among those of Slurm's step; absent where nothing tells.
Result<std::optional<int>> SlurmHost() {
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> given,
                           Number("SLURM_NODEID"));
  const char* const list = std::getenv("SLURM_STEP_NODELIST");
  const char* const name = std::getenv("SLURMD_NODENAME");
  if (given || list == nullptr || name == nullptr) return given;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                           ParseHostList(list));
  const auto host = std::ranges::find(hosts, std::string_view(name));
  if (host == hosts.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[cluster] this host, SLURMD_NODENAME ", Quoted(name),
                        ", is none of SLURM_STEP_NODELIST ", Quoted(list))};
  }
  return std::optional(static_cast<int>(host - hosts.begin()));
}

// How many ranks Slurm has started on this host; where it does not say which of its
// hosts this is, the most on any.
Result<std::optional<int>> SlurmLocalRanks() {
  const char* const list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  if (list == nullptr) return std::optional<int>();
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int> tasks,
                           ParseTasksPerNode(list));
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> host, SlurmHost());
  if (!host) return std::optional(*std::ranges::max_element(tasks));
  if (*host < std::ssize(tasks)) {
    return std::optional(tasks[static_cast<size_t>(*host)]);
  }
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[cluster] SLURM_STEP_TASKS_PER_NODE is ", Quoted(list), ", of ",
             tasks.size(), " hosts; this is host ", *host, ", counted from 0")};
}

Result<std::optional<int>> LocalRanks(const Names& names) {
  return names.local_ranks == nullptr ? SlurmLocalRanks()
                                      : Number(names.local_ranks);
}

}  // namespace

Result<Launch> ReadLaunch() {
  for (const Names& names : kLaunchers) {
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> ranks,
                             Number(names.ranks));
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> rank, Number(names.rank));
    if (!ranks || !rank) continue;
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> number,
                             Number(names.local_rank));
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<int> local, LocalRanks(names));
    if (*rank >= *ranks) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[cluster] ", names.rank, " is ", *rank, " and ", names.ranks,
                 " is ", *ranks, "; expected a rank below their number")};
    }
    return Launch{.rank = *rank,
                  .ranks = *ranks,
                  .local_rank = number.value_or(0),
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
