"""From a spec and a site to a Plan: every decision about a job is made in this folder."""
