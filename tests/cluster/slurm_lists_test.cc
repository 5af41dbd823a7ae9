#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cluster/launch.h"

namespace stowage::cluster {
namespace {

using Names = std::vector<std::string>;

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
