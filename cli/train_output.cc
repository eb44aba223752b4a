#include "cli/train_output.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no word for what is not finite: there it is null.
double number_of(const Json& value) {
  return value.is_number() ? value.get<double>()
                           : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void print_training(const std::string& result, const TrainRequest& request,
                    Format format) {
  const Json json = Json::parse(result);
  const auto& time = json.at("step_time_ns");
  const auto& loss = json.at("loss");
  Table table;
  table.headings = {"program", "ranks", "steps", "step (median)", "min", "p90"};
  table.rows.push_back({std::filesystem::path(request.program).stem().string(),
                        std::to_string(request.ranks), json.at("steps").dump(),
                        duration_text(time.at("median")),
                        duration_text(time.at("min")),
                        duration_text(time.at("p90"))});
  const auto add = [&](const char* heading, std::string value) {
    table.headings.emplace_back(heading);
    table.rows[0].push_back(std::move(value));
  };
  if (!loss.empty()) {
    add("first loss", fmt::format("{:.4f}", number_of(loss.front())));
    add("last loss", fmt::format("{:.4f}", number_of(loss.back())));
  }
  if (json.contains("accuracy")) {
    add("accuracy",
        fmt::format("{:.1f} %", 100 * number_of(json["accuracy"].back())));
  }
  if (json.contains("verification")) {
    const auto& verification = json["verification"];
    add("worst tensor error",
        fmt::format("{:.1e} ({}, limit {:.0e})",
                    number_of(verification.value("worst_error", Json())),
                    verification.at("passed").get<bool>() ? "passed" : "FAILED",
                    verification.at("limit").get<double>()));
  }
  print_output(format, table, json);
}

}  // namespace reprise
