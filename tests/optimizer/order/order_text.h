// Reads ordering instances from text: `op ID STREAM DURATION`, `dep BEFORE
// AFTER`. Streams are `compute` and `communication`.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "optimizer/order/order_graph.h"
#include "tests/testing/directories.h"

namespace reprise {

inline OrderInstance parse_order_text(std::istream& text) {
  OrderInstance instance;
  std::string word, stream;
  while (text >> word) {
    uint32_t a = 0, b = 0;
    if (word == "op") {
      int64_t duration = 0;
      text >> a >> stream >> duration;
      EXPECT_EQ(a, instance.stream.size());
      instance.stream.push_back(stream == "compute" ? 0 : 1);
      instance.duration.push_back(duration);
    } else {
      text >> a >> b;
      instance.dependencies.emplace_back(a, b);
    }
  }
  return instance;
}

inline OrderGraph order_graph_from_text(const std::string& text) {
  std::istringstream stream(text);
  auto graph = OrderGraph::make(parse_order_text(stream));
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return *std::move(graph);
}

/// A fixture of ../shared/bench/order, beside the checkout; empty when absent.
inline OrderInstance load_bench_order(int ops) {
  std::ifstream file(shared_directory() + "/bench/order/order-" +
                     std::to_string(ops) + ".txt");
  return parse_order_text(file);
}

}  // namespace reprise
