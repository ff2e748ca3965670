package io.ppmr.cli.report;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.transform.OutputKeys;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.stream.StreamResult;
import org.w3c.dom.Document;
import org.w3c.dom.Element;

/**
 * A page of one HTML file that refers to nothing else. It has no script, and its content policy permits none. Every
 * text is a node of a document that the JDK writes, so it stays text whatever characters it has. Charts are images, so
 * nothing in them could run either. Confined to one thread.
 */
public final class HtmlPage {
    /** Maximum length of a text. Users can choose longer ones. */
    private static final int MAX_TEXT_CHARS = 2000;

    private static final String STYLE = """
            :root{color-scheme:light dark;--back:#fff;--text:#1f2328;--soft:#4b5563;--line:#d0d7de;--band:#f6f8fa;\
            --good:#116329;--bad:#a40e26}
            *{box-sizing:border-box}
            body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif;\
            overflow-wrap:anywhere}
            main{max-width:964px;margin:0 auto;padding:16px}
            h1{font-size:1.5rem;line-height:1.25;margin:8px 0}
            h2{font-size:1.15rem;margin:32px 0 8px;padding-top:8px;border-top:1px solid var(--line)}
            p{margin:8px 0}
            .note,figcaption,footer{color:var(--soft);font-size:.875rem}
            .good{color:var(--good);font-weight:600}
            .bad{color:var(--bad);font-weight:600}
            dl{display:grid;grid-template-columns:minmax(7rem,12rem) 1fr;gap:4px 16px;margin:8px 0}
            dt{color:var(--soft)}
            dd{margin:0}
            figure{margin:12px 0}
            img{display:block;width:100%;height:auto}
            .scroll{overflow-x:auto}
            table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
            caption{text-align:left;color:var(--soft);padding:4px 0}
            th,td{padding:4px 8px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);\
            overflow-wrap:normal}
            td.text{overflow-wrap:anywhere;min-width:12rem}
            thead th{background:var(--band);white-space:nowrap}
            .number{text-align:right;white-space:nowrap}
            .time{white-space:nowrap}
            footer{margin-top:32px;border-top:1px solid var(--line);padding-top:8px}
            @media (prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#a5afba;--line:#30363d;\
            --band:#161b22;--good:#7ee787;--bad:#ff9492}}
            @media print{:root{color-scheme:light;--back:#fff;--text:#1f2328;--soft:#4b5563;--line:#d0d7de;\
            --band:#f6f8fa;--good:#116329;--bad:#a40e26}
            main{max-width:none;padding:0}
            .scroll{overflow:visible}
            figure,tr{break-inside:avoid}
            h2{break-after:avoid}
            body{font-size:11pt}}
            """;

    private final Document document;
    private final Element main;

    /** @param title title of the window */
    public HtmlPage(String title) throws IOException {
        try {
            document = DocumentBuilderFactory.newDefaultInstance()
                    .newDocumentBuilder()
                    .newDocument();
        } catch (ParserConfigurationException e) {
            throw new IOException("the JVM's XML parser cannot be used: " + e.getMessage(), e);
        }
        Element html = document.createElement("html");
        html.setAttribute("lang", "en");
        document.appendChild(html);
        Element head = child(html, "head");
        Element policy = child(head, "meta");
        policy.setAttribute("http-equiv", "Content-Security-Policy");
        policy.setAttribute(
                "content",
                "default-src 'none'; img-src data:; style-src '" + hash(STYLE)
                        + "'; base-uri 'none'; form-action 'none'");
        Element viewport = child(head, "meta");
        viewport.setAttribute("name", "viewport");
        viewport.setAttribute("content", "width=device-width, initial-scale=1");
        text(child(head, "title"), title);
        child(head, "style").setTextContent(STYLE);
        main = child(child(html, "body"), "main");
    }

    private static String hash(String style) throws IOException {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(style.getBytes(StandardCharsets.UTF_8));
            return "sha256-" + Base64.getEncoder().encodeToString(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IOException("this JVM has no SHA-256", e);
        }
    }

    /**
     * Shows what would not be seen, or would change how the text around it is read: control characters and those that
     * change the direction of text. Cuts what is too long.
     */
    static String shown(String text) {
        String cut = text.length() <= MAX_TEXT_CHARS ? text : text.substring(0, MAX_TEXT_CHARS) + "\u2026";
        return cut.codePoints()
                .mapToObj(one -> isSeen(one) ? Character.toString(one) : String.format(Locale.ROOT, "\\u%04x", one))
                .collect(Collectors.joining());
    }

    private static boolean isSeen(int character) {
        int type = Character.getType(character);
        return !Character.isISOControl(character)
                && type != Character.FORMAT
                && type != Character.SURROGATE
                && type != Character.LINE_SEPARATOR
                && type != Character.PARAGRAPH_SEPARATOR
                && type != Character.UNASSIGNED;
    }

    /** Returns the part of the page that has its content. */
    public Element main() {
        return main;
    }

    /** Adds an element. */
    public Element child(Element parent, String name) {
        Element child = document.createElement(name);
        parent.appendChild(child);
        return child;
    }

    /** Adds a text, which stays text. */
    public void text(Element parent, String text) {
        parent.appendChild(document.createTextNode(shown(text)));
    }

    /** Adds a heading. */
    public void heading(int level, String text) {
        text(child(main, "h" + level), text);
    }

    /** Adds a paragraph of a kind of the style sheet, or of none. */
    public void paragraph(String kind, String text) {
        Element paragraph = child(main, "p");
        if (!kind.isEmpty()) {
            paragraph.setAttribute("class", kind);
        }
        text(paragraph, text);
    }

    /** Adds names with their values. */
    public void facts(List<List<String>> facts) {
        Element list = child(main, "dl");
        for (List<String> fact : facts) {
            text(child(list, "dt"), fact.get(0));
            text(child(list, "dd"), fact.get(1));
        }
    }

    /** A column of a table. Numbers and times are not broken into lines. */
    public record Column(String name, ColumnKind kind) {}

    /** The kinds of columns. */
    public enum ColumnKind {
        TEXT,
        NUMBER,
        TIME
    }

    /** Adds a table in a region of its own, which scrolls where the window is narrow. */
    public void table(String caption, List<Column> columns, List<List<String>> rows) {
        Element region = child(main, "div");
        region.setAttribute("class", "scroll");
        region.setAttribute("role", "region");
        region.setAttribute("tabindex", "0");
        region.setAttribute("aria-label", caption);
        Element table = child(region, "table");
        text(child(table, "caption"), caption);
        Element head = child(child(table, "thead"), "tr");
        for (Column column : columns) {
            Element cell = child(head, "th");
            cell.setAttribute("scope", "col");
            styled(cell, column);
            text(cell, column.name());
        }
        Element body = child(table, "tbody");
        for (List<String> row : rows) {
            Element line = child(body, "tr");
            for (int i = 0; i < row.size(); i++) {
                Element cell = child(line, "td");
                styled(cell, columns.get(i));
                text(cell, row.get(i));
            }
        }
    }

    private static void styled(Element cell, Column column) {
        cell.setAttribute("class", column.kind().name().toLowerCase(Locale.ROOT));
    }

    /**
     * Adds a chart in each theme and width. The browser chooses one, and print takes the light one.
     *
     * @param alternative the text for screen readers
     */
    public void chart(ChartVariants chart, String alternative, String caption) {
        Element figure = child(main, "figure");
        Element picture = child(figure, "picture");
        if (!chart.narrowDark().isEmpty()) {
            source(picture, "screen and (max-width: 600px) and (prefers-color-scheme: dark)", chart.narrowDark());
            source(picture, "screen and (max-width: 600px)", chart.narrowLight());
        }
        source(picture, "screen and (prefers-color-scheme: dark)", chart.wideDark());
        Element image = child(picture, "img");
        image.setAttribute("src", data(chart.wideLight()));
        image.setAttribute("alt", shown(alternative));
        text(child(figure, "figcaption"), caption);
    }

    /** A chart as SVG. The narrow ones may be empty. */
    public record ChartVariants(String wideLight, String wideDark, String narrowLight, String narrowDark) {}

    private void source(Element picture, String media, String svg) {
        Element source = child(picture, "source");
        source.setAttribute("media", media);
        source.setAttribute("srcset", data(svg));
    }

    private static String data(String svg) {
        return "data:image/svg+xml;base64," + Base64.getEncoder().encodeToString(svg.getBytes(StandardCharsets.UTF_8));
    }

    /** Returns the file's text. */
    public String write() throws IOException {
        try {
            Transformer transformer = TransformerFactory.newDefaultInstance().newTransformer();
            transformer.setOutputProperty(OutputKeys.METHOD, "html");
            transformer.setOutputProperty(OutputKeys.ENCODING, "UTF-8");
            transformer.setOutputProperty(OutputKeys.INDENT, "no");
            transformer.setOutputProperty(OutputKeys.DOCTYPE_SYSTEM, "about:legacy-compat");
            StringWriter text = new StringWriter();
            transformer.transform(new DOMSource(document), new StreamResult(text));
            return text.append('\n').toString();
        } catch (TransformerException e) {
            throw new IOException("the page cannot be written: " + e.getMessage(), e);
        }
    }
}
