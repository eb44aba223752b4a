#include "cli/report/page.h"

#include <nlohmann/json.hpp>

#include "cli/report/page_text.h"
#include "data/io/json_tree.h"
#include "data/io/printable_text.h"

namespace reprise {
namespace {

/// Once, from `at` on; returns where what was put in ends.
size_t put(std::string& text, std::string_view mark, std::string_view value,
           size_t at) {
  const size_t found = text.find(mark, at);
  if (found == std::string::npos) return at;
  text.replace(found, mark.size(), value);
  return found + value.size();
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string html;
  for (const char c : printable_text(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string script_json(const nlohmann::ordered_json& json) {
  const std::string text = printable_json(json_text(json));
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    // Only strings have these.
    if (c == '<') {
      safe += "\\u003c";
    } else if (c == '>') {
      safe += "\\u003e";
    } else if (c == '&') {
      safe += "\\u0026";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string table_html(const std::vector<std::string>& headings,
                       const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string html = "<table><thead><tr>";
  for (const std::string& heading : headings) {
    html += "<th>" + html_text(heading) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) {
      html += "<td>" + html_text(cell) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string page_html(const ReportPage& page) {
  std::string sections;
  for (const ReportSection& section : page.sections) {
    sections += "<section><h2>" + html_text(section.title) + "</h2>\n" +
                section.body + "</section>\n";
  }
  std::string html(kPageHtml);
  // In the order of the page, so that nothing put in is looked at again.
  size_t at = put(html, "{{TITLE}}", html_text(page.title), 0);
  at = put(html, "{{CSS}}", kPageCss, at);
  at = put(html, "{{TITLE}}", html_text(page.title), at);
  at = put(html, "{{VERDICT}}", html_text(page.verdict), at);
  at = put(html, "{{SECTIONS}}", sections, at);
  at = put(html, "{{DATA}}", page.data, at);
  put(html, "{{JS}}", kPageScript, at);
  return html;
}

}  // namespace reprise
