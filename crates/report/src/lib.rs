//! A journal, told: terminal, HTML, Markdown, LaTeX, CSV, JSON.
