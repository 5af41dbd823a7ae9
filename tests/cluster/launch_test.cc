#include "cluster/launch.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace stowage::cluster {
namespace {

using Names = std::vector<std::string>;

// What is read where these variables alone are set, of all that are looked at.
Result<Launch> With(
    const std::vector<std::pair<const char*, const char*>>& variables) {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK",
        "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_NODEID", "SLURM_STEP_NODELIST", "SLURMD_NODENAME"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  return ReadLaunch();
}

TEST_CASE("without a launcher there is one rank") {
  const Result<Launch> launch = With({});
  REQUIRE(launch.ok());
  CHECK(launch->rank == 0);
  CHECK(launch->ranks == 1);
  CHECK(launch->local_ranks == 1);
  // A batch script of Slurm's is no step of it.
  CHECK(With({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})->ranks == 1);
}

TEST_CASE("each launcher tells rank, ranks and those of the host") {
  const Launch openmpi = *With({{"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  CHECK(openmpi.rank == 3);
  CHECK(openmpi.ranks == 8);
  CHECK(openmpi.local_rank == 2);
  CHECK(openmpi.local_ranks == 4);
  CHECK(openmpi.by_openmpi);
  const Launch mpich = *With({{"PMI_RANK", "1"},
                              {"PMI_SIZE", "2"},
                              {"MPI_LOCALRANKID", "1"},
                              {"MPI_LOCALNRANKS", "2"}});
  CHECK(mpich.rank == 1);
  CHECK(mpich.ranks == 2);
  CHECK(mpich.local_rank == 1);
  CHECK(mpich.local_ranks == 2);
  CHECK_FALSE(mpich.by_openmpi);
  const Launch slurm = *With({{"SLURM_PROCID", "5"},
                              {"SLURM_STEP_NUM_TASKS", "7"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_STEP_TASKS_PER_NODE", "4(x1),3"}});
  CHECK(slurm.rank == 5);
  CHECK(slurm.ranks == 7);
  CHECK(slurm.local_rank == 1);
  CHECK(slurm.local_ranks == 4);
}

TEST_CASE("Slurm's ranks are those of this one of its hosts") {
  using Variables = std::vector<std::pair<const char*, const char*>>;
  const auto with = [](const Variables& more) {
    Variables all = {{"SLURM_PROCID", "9"},
                     {"SLURM_STEP_NUM_TASKS", "11"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2,4(x2),1"}};
    all.insert(all.end(), more.begin(), more.end());
    return With(all);
  };
  CHECK(with({{"SLURM_NODEID", "0"}})->local_ranks == 2);
  CHECK(with({{"SLURM_NODEID", "2"}})->local_ranks == 4);
  const std::pair<const char*, const char*> hosts = {"SLURM_STEP_NODELIST",
                                                     "n[08-10],login"};
  CHECK(with({hosts, {"SLURMD_NODENAME", "n10"}})->local_ranks == 4);
  CHECK(with({hosts, {"SLURMD_NODENAME", "login"}})->local_ranks == 1);
  CHECK(with({})->local_ranks == 4);  // of no host is too much
  CHECK(
      with({{"SLURM_NODEID", "4"}}).error().message ==
      "[cluster] SLURM_STEP_TASKS_PER_NODE is \"2,4(x2),1\", of 4 hosts; this "
      "is host 4, counted from 0");
  CHECK(with({hosts, {"SLURMD_NODENAME", "n11"}}).error().message ==
        "[cluster] this host, SLURMD_NODENAME \"n11\", is none of "
        "SLURM_STEP_NODELIST \"n[08-10],login\"");
}

TEST_CASE("what is no number is refused, naming its variable") {
  const auto words = With({{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}});
  REQUIRE_FALSE(words.ok());
  CHECK(words.error().message ==
        "[cluster] the variable PMI_RANK is \"one\"; expected a number, as its "
        "launcher gives");
  CHECK_FALSE(With({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}).ok());
}

TEST_CASE("threads are the host's cores divided, as far as they are bound") {
  const Launch four{.ranks = 8, .local_ranks = 4};
  CHECK(ThreadsOfRank(four, 16, 16) == 4);
  CHECK(ThreadsOfRank(four, 16, 1) == 1);
  CHECK(ThreadsOfRank(four, 2, 2) == 1);  // more ranks than cores
  CHECK(ThreadsOfRank(Launch{}, 16, 16) == 16);
}

Names Hosts(std::string_view list) {
  const Result<Names> hosts = ParseHostList(list);
  REQUIRE_MESSAGE(hosts.ok(), hosts.error().message);
  return *hosts;
}

TEST_CASE("hosts are listed in all forms that Slurm writes") {
  CHECK(Hosts("alone") == Names{"alone"});
  CHECK(Hosts("b,a") == Names{"b", "a"});
  CHECK(Hosts("node[01-03,07]") ==
        Names{"node01", "node02", "node03", "node07"});
  CHECK(Hosts("node[1-2],login1,gpu[9-11]") ==
        Names{"node1", "node2", "login1", "gpu9", "gpu10", "gpu11"});
  CHECK(Hosts("n[099-101]") == Names{"n099", "n100", "n101"});
  CHECK(Hosts("gpu[1-2]-ib") == Names{"gpu1-ib", "gpu2-ib"});
  CHECK(Hosts("rack[1-2]node[0,2]") ==
        Names{"rack1node0", "rack1node2", "rack2node0", "rack2node2"});
  CHECK(Hosts("n[0-65535]").size() == 65536);
}

TEST_CASE("lists of hosts that are none are refused") {
  const auto error = [](std::string_view list) {
    const Result<Names> hosts = ParseHostList(list);
    return hosts.ok() ? std::string() : hosts.error().message;
  };
  CHECK(error("node[01-03") ==
        "[cluster] a bracket without its other in Slurm's list "
        "\"node[01-03\"; expected a form such as node[01-03,07]");
  CHECK(error("node[3-1]")
            .starts_with("[cluster] the range \"3-1\" is none in Slurm's list "
                         "\"node[3-1]\""));
  for (const char* const list :
       {"", "a,", ",a", "a,,b", "n]", "n[", "n[]", "n[1,]", "n[,1]", "n[a-b]",
        "n[1-]", "n[-1]", "n[1-2-3]", "n[[1]]", "n[1[2]]", "n[99999999999]"}) {
    CAPTURE(list);
    CHECK(error(list) != "");
  }
  for (const char* const list :
       {"n[0-65536]", "n[0-2147483647]", "a[1-300]b[1-300]", "a[0-65535],b"}) {
    CAPTURE(list);
    CHECK(error(list).starts_with("[cluster] more than 65536 hosts"));
  }
}

TEST_CASE("tasks are counted host by host") {
  const auto tasks = [](std::string_view list) {
    return *ParseTasksPerNode(list);
  };
  CHECK(tasks("4") == std::vector<int>{4});
  CHECK(tasks("4(x3),2") == std::vector<int>{4, 4, 4, 2});
  CHECK(tasks("1,2(x1),3") == std::vector<int>{1, 2, 3});
  for (const char* const list :
       {"", "x", "4(", "4(x)", "4(x0)", "4(x2", "4(2)", "4x2", "(x2)", "4,",
        "-4", "4(x99999)", "4(x-1)"}) {
    CAPTURE(list);
    CHECK_FALSE(ParseTasksPerNode(list).ok());
  }
  CHECK(ParseTasksPerNode("4(y2)").error().message ==
        "[cluster] \"4(y2)\" is no count in Slurm's list \"4(y2)\"; expected a "
        "form such as 4(x2),3");
}

}  // namespace
}  // namespace stowage::cluster
