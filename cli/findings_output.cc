#include "cli/findings_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/output.h"

namespace reprise {
namespace {

constexpr size_t kLineWidth = 100;  ///< Of a line, where words allow.

using Json = nlohmann::ordered_json;

/// The text in lines of kLineWidth, each behind as many spaces.
std::string wrapped(std::string_view text, size_t indent) {
  std::string lines, line;
  const auto flush = [&] {
    if (!line.empty()) lines += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kLineWidth) {
      flush();
    }
    if (!line.empty()) line += ' ';
    line += word;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  flush();
  return lines;
}

std::string replaced(std::string text, std::string_view word,
                     const std::string& by) {
  const size_t at = text.find(word);
  if (at != std::string::npos) text.replace(at, word.size(), by);
  return text;
}

/// As a shell takes it.
std::string shell_word(const std::string& text) {
  const bool plain =
      !text.empty() && text.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                           "WXYZ0123456789_./-+=:,@%") == std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string finding_text(const Finding& finding, size_t number,
                         const std::string& trace) {
  std::string text = fmt::format(
      "{:>2}. {}{} ({}){}: {}\n", number, finding.at_most ? "up to " : "",
      time_text(finding.gain_ns), share_text(finding.gain_share),
      finding.step ? " a step" : "", finding.what);
  text +=
      wrapped(fmt::format("because {}", fmt::join(finding.evidence, "; ")), 4);
  if (!finding.where.source.empty()) {
    text += wrapped("at " + finding.where.source, 4);
  }
  std::string action = "do: " + finding.action;
  const std::string command = command_of(finding, trace);
  if (!command.empty()) action += " [" + command + "]";
  text += wrapped(action, 4);
  if (const std::string replay = replay_command_of(finding, trace);
      !replay.empty()) {
    text += "    check: " + replay + "\n";
  }
  return text;
}

}  // namespace

std::string command_of(const Finding& finding, const std::string& trace) {
  return replaced(finding.command, "TRACE", shell_word(trace));
}

std::string replay_command_of(const Finding& finding,
                              const std::string& trace) {
  if (finding.what_if.empty()) return "";
  std::string command = "reprise replay " + shell_word(trace);
  if (finding.step) command += fmt::format(" --step {}", *finding.step);
  return command + " --what-if " + finding.what_if;
}

std::string no_finding_text(const Findings& findings) {
  if (!findings.not_replayed.empty()) {
    return "findings: none, as " + findings.not_replayed;
  }
  return fmt::format(
      "findings: none above {} ({} of {})", time_text(findings.threshold_ns),
      share_text(Findings::kLeastShare), time_text(findings.replayed_ns));
}

namespace {

/// A late rank's gaps, and those of a host that launches, are what its finding
/// takes away.
std::string unexplained_text(const Findings& findings) {
  if (findings.unexplained_share < 0.05) return "";
  const bool some_go = std::any_of(
      findings.list.begin(), findings.list.end(), [](const Finding& one) {
        return one.kind == "late-rank" || one.kind == "launch-bound";
      });
  return fmt::format(
      "    {} of the replayed path is gaps that nothing recorded explains: "
      "they stay in every gain{}\n",
      share_text(findings.unexplained_share),
      some_go ? " but a late rank's and launching's" : "");
}

}  // namespace

std::string findings_text(const Findings& findings, const std::string& trace,
                          size_t top) {
  if (findings.list.empty()) return no_finding_text(findings) + "\n";
  std::string text =
      "findings, by what a replay without each gains (gains do not add up)\n";
  size_t number = 0;
  for (const Finding& finding : findings.list) {
    if (number == top) break;
    text += finding_text(finding, ++number, trace);
  }
  if (number < findings.list.size()) {
    text += fmt::format("    and {} less; --top shows more\n",
                        findings.list.size() - number);
  }
  return text + unexplained_text(findings);
}

Json finding_json(const Finding& finding, const std::string& trace) {
  const auto text = [](const std::string& value) {
    return value.empty() ? Json(nullptr) : Json(value);
  };
  const FindingPlace& where = finding.where;
  return {{"kind", finding.kind},
          {"what", finding.what},
          {"where",
           {{"ranks", where.ranks},
            {"stream", text(where.stream)},
            {"kernel", text(where.kernel)},
            {"collective", text(where.collective)},
            {"source", text(where.source)}}},
          {"gain_ns", finding.gain_ns},
          {"gain_share", finding.gain_share},
          {"at_most", finding.at_most},
          {"evidence", finding.evidence},
          {"action", finding.action},
          {"command", text(command_of(finding, trace))},
          {"what_if", text(finding.what_if)},
          {"replay_command", text(replay_command_of(finding, trace))}};
}

Json findings_summary_json(const Findings& findings) {
  return {{"replayed_ns", findings.replayed_ns},
          {"measured_ns", findings.measured_ns},
          {"threshold_ns", findings.threshold_ns},
          {"unexplained_share", findings.unexplained_share},
          {"not_replayed", findings.not_replayed.empty()
                               ? Json(nullptr)
                               : Json(findings.not_replayed)}};
}

}  // namespace reprise
