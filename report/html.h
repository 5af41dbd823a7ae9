#ifndef STOWAGE_REPORT_HTML_H_
#define STOWAGE_REPORT_HTML_H_

// A plan as an interactive page: the map of the arena over time, coloured by kind of
// buffer, with zoom, search and pin; live bytes below it; the buffers and figures as
// tables. It is one file that needs no network. Several programs over one arena are shown
// side by side, two plans are compared, and a run shows its losses.
//
// The page draws the data of numbers.h and details.h; its skeleton, style and script are
// report/page.html, page.css and page.js.
//
//   Write("step.html", ToHtml({.title = "gpt-nano",
//                              .programs = {DescribeProgram("step", graph, plan)}}));

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "report/details.h"
#include "report/numbers.h"

namespace stowage {

struct PageProgram {
  std::string name;
  Report report;
  std::vector<BufferDetails> details;   // of report.buffers
  std::vector<SourceLoc> node_sources;  // of report.nodes
};

/// The page's data of one program. Precondition: CheckPlanIsFor. Linear.
PageProgram DescribeProgram(std::string name, const Graph& graph,
                            const Plan& plan);

struct PageLoss {
  int64_t step = 0;  // from 1
  double loss = 0;
};

struct Page {
  std::string title;
  std::vector<PageProgram> programs = {};  // over one arena, unless `compares`
  bool compares = false;                   // two plans, each with its own arena
  std::optional<Bytes> budget = {};
  std::vector<PageLoss> losses = {};  // of a run, by step
  std::optional<double> held_out_loss = {};
};

/// The file. Linear; some 350 bytes a buffer and 150 a node.
std::string ToHtml(const Page& page);

}  // namespace stowage

#endif  // STOWAGE_REPORT_HTML_H_
