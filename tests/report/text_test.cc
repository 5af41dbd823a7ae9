#include "report/text.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "report/html.h"
#include "report/numbers.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("the table gives each figure with its formula") {
  const std::string table =
      SummaryTable(MakeReport(testing::ExampleGraph(), testing::ExamplePlan()));
  for (const char* line : {
           "| memory plan of \"example <1>\" ",
           "| 3 nodes, 6 buffers, 7 views, 3 written in place ",
           "| weights           |       16 B |  20.0 % | params, once for all "
           "programs    |",
           "| state             |        0 B |   0.0 % | ",
           "| activations       |       32 B |  40.0 % | ",
           "| workspace         |       16 B |  20.0 % | ",
           "| arena             |       80 B |         | sum of the regions = "
           "allocated   |",
           "| lower bound       |       80 B |         | ",
           "| fragmentation     |        0 B |   0.0 % | arena / lower bound - "
           "1          |",
           "| saved             |       16 B |  16.7 % | (no reuse - arena) / "
           "no reuse    |",
           "| saved over it     |    2.0 MiB | 100.0 % | ",
       }) {
    INFO(line);
    CHECK(table.find(line) != std::string::npos);
  }
}

TEST_CASE("a caching allocator that does better shows as a negative saving") {
  Plan plan = testing::ExamplePlan();
  plan.caching_allocator = 64;
  const std::string table =
      SummaryTable(MakeReport(testing::ExampleGraph(), plan));
  CHECK(table.find("| saved over it     |      -16 B | -25.0 % | ") !=
        std::string::npos);
}

TEST_CASE("the table's lines are of one width") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  for (const std::string& line : Lines(SummaryTable(report))) {
    INFO(line);
    CHECK(line.size() == 79);
  }
  for (const std::string& line : Lines(PeakTable(report, 2))) {
    INFO(line);
    CHECK(line.size() == 79);
  }
}

TEST_CASE("the peak's table sums up what it leaves out") {
  const std::string table =
      PeakTable(MakeReport(testing::ExampleGraph(), testing::ExamplePlan()), 3);
  CHECK(table.find("| peak: time 2 of 3, \"loss\" ") != std::string::npos);
  CHECK(table.find("| r & s                             |       16 B | [1, 3) "
                   "      | activations |") != std::string::npos);
  CHECK(table.find("| and 2 more, 20 B ") != std::string::npos);
}

TEST_CASE("the whole report is table, peak and map") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  const std::string text = ToText(report);
  CHECK(text.starts_with(SummaryTable(report)));
  CHECK(text.find("| peak: time 2") != std::string::npos);
  CHECK(text.find("  A  h ") != std::string::npos);
}

TEST_CASE("padding fills or cuts to the width") {
  CHECK(PadRight("ab", 4) == "ab  ");
  CHECK(PadLeft("ab", 4) == "  ab");
  CHECK(PadRight("abcd", 4) == "abcd");
  CHECK(PadRight("abcdef", 5) == "ab...");
  CHECK(PadLeft("abcdef", 5) == "ab...");
  CHECK(PadRight("abcdef", 2) == "ab");
}

TEST_CASE("large numbers have a comma every three digits") {
  CHECK(WithCommas(0) == "0");
  CHECK(WithCommas(999) == "999");
  CHECK(WithCommas(1000) == "1,000");
  CHECK(WithCommas(124439808) == "124,439,808");
  CHECK(WithCommas(-999) == "-999");
  CHECK(WithCommas(-100000) == "-100,000");
}

TEST_CASE("XML text has no bare signs and no control characters") {
  CHECK(XmlEscaped("a<b>&\"c\"'\n") == "a&lt;b&gt;&amp;&quot;c&quot;&#39; ");
  CHECK(XmlEscaped("\xc3\xa9<\xff") == "\xc3\xa9&lt;\xef\xbf\xbd");
}

TEST_CASE("intervals are half-open") { CHECK(Interval(3, 17) == "[3, 17)"); }

TEST_CASE("the map of a plan laid by hand is the image drawn by hand") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  // Five rows of 16 bytes, three columns of one node.
  CHECK(MemoryMap(report, {.rows = 5}) ==
        "       64 B |..C\n"
        "       48 B |.BB\n"
        "       32 B |AAD\n"
        "       16 B |iii\n"
        "        0 B |www\n"
        "            +---\n"
        "       time  0 3\n"
        "\n"
        "  A  h                                        16 B  [0, 2)         "
        "activations\n"
        "  B  r & s                                    16 B  [1, 3)         "
        "activations\n"
        "  C  workspace of \"loss\"                      16 B  [2, 3)         "
        "workspace\n"
        "  D  loss                                      4 B  [2, 3)         "
        "activations\n"
        "  w weights; i inputs; . free\n");
}

TEST_CASE("buffers without a letter show what they are") {
  const Report report =
      MakeReport(testing::ExampleGraph(), testing::ExamplePlan());
  CHECK(MemoryMap(report, {.rows = 5, .letters = 1}) ==
        "       64 B |..~\n"
        "       48 B |.++\n"
        "       32 B |AA+\n"
        "       16 B |iii\n"
        "        0 B |www\n"
        "            +---\n"
        "       time  0 3\n"
        "\n"
        "  A  h                                        16 B  [0, 2)         "
        "activations\n"
        "  w weights; i inputs; + other activations and gradients; "
        "~ workspace; . free\n");
}

TEST_CASE("a cell that is mostly free shows as free") {
  Plan plan = testing::ExamplePlan();
  plan.regions.workspace += 20;  // two rows of 50 bytes
  // The upper row holds nothing at time 0, 14 of its 50 bytes at time 1, and
  // 14 and 16 at time 2.
  const std::string map =
      MemoryMap(MakeReport(testing::ExampleGraph(), plan), {.rows = 2});
  CHECK(map.starts_with("       50 B |..C\n        0 B |www\n"));
}

TEST_CASE("no line of the default map is longer than 80 characters") {
  Plan plan = testing::ExamplePlan();
  plan.buffers[2].name = std::string(200, 'n');
  std::istringstream lines(
      MemoryMap(MakeReport(testing::ExampleGraph(), plan)));
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("an empty arena has no map") { CHECK(MemoryMap(Report{}).empty()); }

TEST_CASE("the text of a stream has a line for every event, in columns") {
  CHECK(
      ToStreamText(testing::ExampleGraph(), testing::ExamplePlan()) ==
      R"(stream of "example <1>": arena 80 bytes, host 0 bytes, slots of 16 bytes
time  event     memory  address  bytes  what
   0  allocate  arena         0     16  weights w
   0  allocate  arena        16     16  io x
   0  allocate  arena        32     16  activations h
   0  launch    -             -      -  mul h @32+16 <- w @0+16, x @16+16
   1  allocate  arena        48     16  activations "r & s"
   1  launch    -             -      -  relu "r & s" @48+16 <- h @32+16
   2  kill      arena        32     16  activations h
   2  allocate  arena        32      4  activations loss
   2  allocate  arena        64     16  workspace "workspace of \"loss\""
   2  launch    -             -      -  reduce_sum loss @32+4 <- "r & s" @48+16 with scratch @64+16
   3  kill      arena        48     16  activations "r & s"
   3  kill      arena        32      4  activations loss
   3  kill      arena        64     16  workspace "workspace of \"loss\""
   4  kill      arena        16     16  io x
   4  kill      arena         0     16  weights w
)");
}

TEST_CASE("roots of views, results in place and places on the host are told") {
  GraphBuilder g("host");
  const Value x = g.Input("x", DType::kF32, {1000, 2});
  const Value e = g.Name("e", Exp(x));
  const Value last = g.Name("last", Slice(e, 0, 999, 1000));
  g.Output("y", g.Name("y", Reload(g.Name("kept", Offload(Relu(last))))));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan = PlanMemory(*graph, {.alignment = 64});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  // x and its exponentials take 8000 bytes each; the last of them are a row of
  // two floats. In 16000 bytes the columns are wider than their titles.
  const std::string text = ToStreamText(*graph, *plan);
  INFO(text);
  const auto has = [&](const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(" <- last of e @15992+8\n"));
  CHECK(has("allocate  host          0      8  host_offload kept\n"));
  CHECK(has("offload kept @host:0+8 <- "));
  CHECK(has("reload y @"));
  CHECK(has(" <- kept @host:0+8\n"));
}

TEST_CASE("what dies in a branch, and what lies there then, is told") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value flag = g.Input("flag", DType::kBool, {});
  const Value t = g.Name("t", Tanh(x));
  const auto sine = [](CondBody& body) {
    return std::vector{Sin(body.operand(0))};
  };
  const auto more = [](CondBody& body) {
    GraphBuilder& b = body.builder();
    const Value sum = b.Name("sum", ReduceSum(body.operand(0)));
    const Value own = b.Name("own", Copy(BroadcastTo(sum, {4})));
    const Value rows = Copy(BroadcastTo(Reshape(own, {1, 4}), {2, 4}));
    return std::vector{ReduceSum(rows, {0})};
  };
  g.Output("y", Cond(g, flag, {t}, {sine, more})[0]);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan = PlanMemory(*graph, {.alignment = 16});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const std::string text = ToStreamText(*graph, *plan);
  INFO(text);
  const auto lines_with = [&](const char* part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  };
  CHECK(lines_with("kill      outside        0     16    outside t\n") == 2);
  CHECK(lines_with("allocate  outside        0     16    outside own at t\n") ==
        1);
  CHECK(lines_with("copy own @outside:0+16 at t <- ") == 1);
  CHECK(lines_with("kill      outside        0     16    outside own at t\n") ==
        1);
}

}  // namespace
}  // namespace stowage
