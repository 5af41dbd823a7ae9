#ifndef STOWAGE_CLUSTER_LAUNCH_H_
#define STOWAGE_CLUSTER_LAUNCH_H_

// Reads the rank of this process and the number of ranks from the environment variables of the
// launcher (mpirun or srun):
//
//   OpenMPI's mpirun  OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   MPICH's Hydra     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm's srun      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID; per host
//                     SLURM_STEP_TASKS_PER_NODE, at index SLURM_NODEID or the index
//                     of SLURMD_NODENAME in SLURM_STEP_NODELIST
//
//   Result<Launch> launch = ReadLaunch();
//   if (launch->ranks > 1) ...

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::cluster {

struct Launch {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;   // The rank among the ranks on this host.
  int local_ranks = 1;  // The number of ranks on this host. At least 1.
  /// The launcher's name in messages. Empty without a launcher.
  std::string launcher = {};
  bool by_openmpi = false;  // Whether the launcher is OpenMPI's mpirun.
};

/// Returns the launch of this process. If no launcher has set its variables for the rank and the
/// number of ranks, this is a single rank. If several have, OpenMPI's variables precede Slurm's,
/// and Slurm's precede MPICH's. Returns kInvalidArgument, naming the variable, if a variable has an
/// invalid number or list, if the rank is not below the number of ranks, or if this host is not in
/// Slurm's lists.
Result<Launch> ReadLaunch();

/// Returns the number of threads to use in a rank: the number of cores of the host, divided by the
/// number of ranks on it. The result is at most `bound_cores`, the number of cores to which the
/// launcher has bound the rank, and at least 1.
int ThreadsOfRank(const Launch& launch, int host_cores, int bound_cores);
/// Returns the number of threads to use in this process.
int ThreadsOfRank(const Launch& launch);

// Parses Slurm's compressed lists:
//
//   SLURM_STEP_NODELIST        "gpu[01-03,07],login1"  gpu01, gpu02, gpu03, gpu07, login1
//   SLURM_STEP_TASKS_PER_NODE  "4(x3),2"               4, 4, 4, 2
//
//   Result<std::vector<std::string>> hosts = ParseHostList("node[1-2]-ib");

/// The maximum number of hosts in a list, which is larger than any cluster.
inline constexpr int kMaxHosts = 1 << 16;

/// Returns the hosts in `list`, in order. Numbers in brackets keep leading zeros. Several brackets
/// in a name expand to all combinations, and the last bracket varies fastest. Returns
/// kInvalidArgument, with the list and the reason, for an unclosed or nested bracket, an
/// invalid or descending range, an empty name, or more than kMaxHosts hosts.
Result<std::vector<std::string>> ParseHostList(std::string_view list);

/// Returns the number of tasks of each host in `list`. Returns kInvalidArgument for an invalid list
/// or more than kMaxHosts hosts.
Result<std::vector<int>> ParseTasksPerNode(std::string_view list);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LAUNCH_H_
