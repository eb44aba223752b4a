// A report: one HTML file that needs nothing else. Text of strangers reaches it
// through html_text and script_json alone, and the page may load nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// Printable, and with no meaning to HTML, in attributes too.
std::string html_text(std::string_view text);

/// JSON that may stand in a script element.
std::string script_json(const nlohmann::ordered_json& json);

/// A table of text with headings; "" of no rows.
std::string table_html(const std::vector<std::string>& headings,
                       const std::vector<std::vector<std::string>>& rows);

struct ReportSection {
  std::string title;  ///< As text.
  std::string body;   ///< As HTML.
};

/// A figure of its own, also as a file.
struct ReportFigure {
  std::string name;  ///< "breakdown": of the file, without ".svg".
  std::string svg;
};

struct ReportPage {
  std::string title, verdict;  ///< As text.
  std::vector<ReportSection> sections;
  std::vector<ReportFigure> figures;  ///< Already in sections.
  std::string data = "{}";            ///< script_json, for the page's script.
};
std::string page_html(const ReportPage& page);

}  // namespace reprise
